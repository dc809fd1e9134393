"""Changes of settings without a restart, one at a time, falling back to the previous settings on failure.

Downloads and configuration checks run first, while the present models still answer. Only then are the running tasks
cancelled and the runtime closed and rebuilt, in this order, so that two models need not fit into memory at once. If
that fails, the previous runtime is rebuilt. KV on disk stays: it is keyed by the model's fingerprint and is reused
when the model is loaded again. New budgets alone are applied to the open tiers at once.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event, RLock, Thread

from backend.interface.backend import Status
from backend.runtime.loader import GIB, SHUTDOWN_TIMEOUT_S, RuntimeLoader, loading_error, model_config
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from engine.builder import fetch_models, release_memory
from engine.cache.admin import CacheAdmin, EvictionResult
from engine.errors import BadRequest, Cancelled, ModelNotReady
from store.errors import KVScopeError
from store.retrieval.reranker import download as download_reranker

BUDGET_SETTINGS = {"device": "gpu_cache_gib", "host": "cpu_cache_gib", "disk": "disk_cache_gib"}  # by tier
log = logging.getLogger("kvscope")


class NothingChanges(KVScopeError):
    hint = "Change a setting first."


class Reloader:
    """Applies settings to a loader's runtime in a background thread.

    save       called with settings that work
    overrides  the flag or variable that sets a setting, by the setting's name; such settings cannot be changed
    error      why the latest change failed, and which settings are in use now; empty if it succeeded
    """

    def __init__(
        self,
        loader: RuntimeLoader,
        tasks: TaskRegistry,
        save: Callable[[Settings], None],
        overrides: Mapping[str, str],
    ) -> None:
        self.is_downloading = False
        self.error = ""
        self._loader = loader
        self._tasks = tasks
        self._save = save
        self._overrides = overrides
        self._download_cancelled = Event()
        self._lock = RLock()  # one change at a time
        self._thread: Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, new: Settings) -> None:
        """Start to apply settings. If only budgets differ, they are in use when this returns.

        Raises NothingChanges, BadRequest for overridden settings, ModelNotReady during another change, and what
        `set_budgets` raises.
        """
        with self._lock:
            values, old_values = new.mutable_values(), self._loader.settings.mutable_values()
            changed = {name for name in values if values[name] != old_values[name]}
            self._check_not_overridden(changed)
            if self.is_running or self._loader.is_loading:
                raise ModelNotReady(f"{self._loader.status.message}.")
            if new == self._loader.settings and self._loader.runtime is not None:
                raise NothingChanges("These settings are already in use.")
            self.error = ""
            tiers = {BUDGET_SETTINGS[tier.name]: tier.name for tier in self._loader.tiers()}
            if changed and changed <= tiers.keys():
                self.set_budgets({tiers[name]: int(values[name] * GIB) for name in changed})
                return
            self._download_cancelled.clear()
            self._thread = Thread(target=self._run, args=[new], name="reloading", daemon=True)
            self._thread.start()

    def set_budgets(self, budgets: Mapping[str, int]) -> EvictionResult:
        """Set tier budgets in bytes, evict down to them, and save them.

        Raises ModelNotReady, BadRequest for overridden settings, and what `CacheAdmin.set_budgets` raises, with
        nothing changed.
        """
        with self._lock:
            if self.is_running:
                raise ModelNotReady(f"{self._loader.status.message}.")
            self._check_not_overridden(BUDGET_SETTINGS[tier] for tier in budgets if tier in BUDGET_SETTINGS)
            evicted = CacheAdmin(self._loader.ready().tiers.tree).set_budgets(budgets)
            values = {BUDGET_SETTINGS[tier]: round(size_bytes / GIB, 3) for tier, size_bytes in budgets.items()}
            self._loader.settings = self._loader.settings.updated(values)
            self._save_settings(self._loader.settings)
            return evicted

    def cancel_download(self) -> None:
        """Cancel a running download; no effect after it."""
        self._download_cancelled.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the change has finished or failed."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _check_not_overridden(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            if flag := self._overrides.get(name):
                raise BadRequest(f"This setting is set by {flag}. Restart KVScope without it to change it here.")

    def _run(self, new: Settings) -> None:
        loader, old_status = self._loader, self._loader.status
        is_first = loader.runtime is None
        models = (model_config(new), new.reranker)
        if is_first or models != (model_config(loader.settings), loader.settings.reranker):
            self.error = self._download(new)
        if self.error:
            loader.status = old_status
            return
        loader.status = Status(ready=False, message="Unloading", progress=0.78)
        with self._tasks.drain(SHUTDOWN_TIMEOUT_S):
            message = self._replace_runtime(new)
        if loader.runtime is None:
            self.error = "" if self._tasks.is_closing else message
            loader.status = Status(ready=False, message=message, failed=not self._tasks.is_closing)
            return
        if is_first:
            loader.on_ready(message)
        loader.status = Status(ready=True, message=message)

    def _download(self, new: Settings) -> str:
        """Download the models that are not on this machine; return an error message, or an empty string."""
        self.is_downloading = True
        try:
            fetch_models(model_config(new), self._report)
            if new.reranker not in ("off", self._loader.settings.reranker):
                self._report(f"Downloading {Path(new.reranker).name}", 0.76)
                download_reranker(new.reranker)
        except Cancelled:
            return "The download was stopped; the next attempt resumes it."
        except Exception as error:  # noqa: BLE001  shown to the user
            return f"{loading_error(error)} Nothing was changed."
        finally:
            self.is_downloading = False
        return ""

    def _replace_runtime(self, new: Settings) -> str:
        """Close the runtime and build one for the new settings, or the previous one; return the status message."""
        loader, old_settings, old_runtime = self._loader, self._loader.settings, self._loader.runtime
        same_models = old_runtime is not None and model_config(new) == model_config(old_settings)
        models = old_runtime.models if old_runtime is not None and same_models else None
        is_first = old_runtime is None
        del old_runtime
        try:
            loader.release()
            loader.settings = new
            message = loader.open(models)
        except Cancelled:
            return "Closed"
        except Exception as error:  # noqa: BLE001  shown to the user
            reason = loading_error(error)
        else:
            self._save_settings(new)
            return message
        loader.settings = old_settings  # after the except clause: the error no longer references partly loaded models
        release_memory()
        if is_first:
            return reason
        try:
            message = loader.open(models)
        except Cancelled:
            return "Closed"
        except Exception as error:  # noqa: BLE001  shown to the user
            return f"{reason} The previous settings cannot be restored either: {loading_error(error)}"
        self.error = f"{reason} The previous settings are in use again."
        return message

    def _save_settings(self, settings: Settings) -> None:
        try:
            self._save(settings)
        except KVScopeError as error:
            log.error("%s", error)
            self.error = f"The settings are in use, but could not be saved for the next start. {error}"

    def _report(self, message: str, progress: float) -> None:
        """Show the progress of a download, during which the present models still answer."""
        if self._download_cancelled.is_set() or self._tasks.is_closing:
            raise Cancelled
        self._loader.status = Status(ready=self._loader.runtime is not None, message=message, progress=progress)
