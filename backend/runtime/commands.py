"""What the application does instead of serving: clear the cache, check, repair, export and import a data folder."""

import logging
from contextlib import closing, nullcontext
from math import ceil
from pathlib import Path

from backend.runtime.check import check_folder
from backend.runtime.settings import Settings
from engine.errors import BadRequest
from store.audit import AuditLog
from store.catalog.catalog import Catalog
from store.catalog.transfer import export_library
from store.kv.blobs import remove_all
from store.limits import Limits
from store.lock import FolderLock

CLIENT = "command line"  # in the audit log
log = logging.getLogger("kvscope")


def run_command(settings: Settings) -> int:
    """Run the command of the settings and log its result; return the exit status. Raises KVScopeError."""
    if settings.library and not settings.clear_cache:
        raise BadRequest(f"The documents are those of {settings.library}. Run this with the library server's --data.")
    audit = AuditLog(settings.data if settings.audit else None)
    if settings.export_file is not None:
        return _export(settings.data, settings.export_file, audit)  # without the lock: KVScope may be running
    with closing(FolderLock(settings.data)):
        if settings.clear_cache:
            return _clear_cache(settings.data / "kv", audit)
        if settings.import_file is not None:
            return _import(settings.data, settings.import_file, settings.limits, audit)
        return _check(settings.data, settings.repair, audit)


def _clear_cache(folder: Path, audit: AuditLog) -> int:
    with audit.recording(CLIENT, "clear-cache") as details:
        removed_bytes, remaining_bytes = remove_all(folder)
        details["outcome"] = "failed" if remaining_bytes else "ok"
    log.info("%d MiB of chunk KV deleted", ceil(removed_bytes / 2**20))
    if remaining_bytes:
        remaining = ceil(remaining_bytes / 2**20)
        log.error("%d MiB in %s could not be deleted. Check the files' permissions.", remaining, folder)
    return 1 if remaining_bytes else 0


def _check(data: Path, repair: bool, audit: AuditLog) -> int:
    with audit.recording(CLIENT, "repair") if repair else nullcontext(dict[str, str | int]()) as details:
        problems = check_folder(data, repair)
        details["problems"] = len(problems)
    for problem in problems:
        log.warning("%s", problem)
    if not problems:
        log.info("No damage was found in %s", data)
    elif not repair:
        log.info("Start KVScope, or run it with --repair; damaged documents and settings are kept under dated names")
    return 1 if problems and not repair else 0


def _export(data: Path, target: Path, audit: AuditLog) -> int:
    try:
        with audit.recording(CLIENT, "export"):
            file = target.open("xb")
            try:
                with file:
                    count = export_library(data, file)
            except BaseException:
                target.unlink()
                raise
    except OSError as error:
        log.error("%s cannot be written (%s). Choose another file.", target, error.strerror)
        return 1
    log.info("Documents exported to %s: %d", target, count)
    return 0


def _import(data: Path, source: Path, limits: Limits, audit: AuditLog) -> int:
    with audit.recording(CLIENT, "import", source.name) as details, closing(Catalog(data / "library")) as catalog:
        result = catalog.import_from(source, limits)
        details["added"] = result.added
    log.info("Documents added: %d; in the library before: %d", result.added, result.existing)
    for name in result.damaged:
        log.error("%s is damaged in %s and was not added", name, source)
    return 1 if result.damaged else 0
