"""Check and repair a data folder that no KVScope uses: `python app.py --check` and `--repair`."""

import shutil
from pathlib import Path

from engine.model.loading.bundled import is_intact
from engine.model.loading.presets import BUNDLED_MODEL
from store.atomic import copy_aside
from store.catalog import recovery
from store.catalog.copies import copies_of
from store.feedback import Feedback
from store.kv import blobs
from store.preferences import COLLECTIONS, FILE_NAME, Preferences
from store.retrieval.vectors import OPENING, is_usable


def check_folder(data: Path, repair: bool) -> list[str]:
    """Read everything in a data folder; return a sentence for each problem, empty if there is none.

    With `repair`, the library is rebuilt, damaged settings are set aside, and what can be computed again is deleted.
    Raises NewerLibrary and StoreFull.
    """
    library, model = data / "library", data / "models" / BUNDLED_MODEL
    problems = []
    if damage := recovery.find_damage(library):
        problems.append(recovery.rebuild(library, damage) if repair else f"The library's database {damage}.")
    for copy in copies_of(library):
        if not recovery.is_readable(copy):
            problems.append(f"The copy {copy.name} of the library's database is damaged.")
            if repair:
                copy.unlink()
    vectors = library / "vectors"
    if vectors.exists() and not is_usable(vectors):
        problems.append("The search index is damaged; the next start computes it again.")
        if repair:
            shutil.rmtree(vectors)
            (library / OPENING).unlink(missing_ok=True)
    if damage := blobs.check(data / "kv", repair):
        problems.append(f"The chunk KV {damage}; it is computed again when a question needs it.")
    for name in (FILE_NAME, COLLECTIONS):
        if damage := Preferences(data, name).find_damage():
            problems.append(f"{name} {damage}; the defaults are used.")
            if repair:
                copy_aside(data / name)
                (data / name).unlink()
    feedback = Feedback(data)
    if damage := feedback.find_damage():
        problems.append(f"The file of ratings {damage}.")
        if repair:
            feedback.repair()
    if model.exists() and not is_intact(model):
        problems.append("The bundled model's files are damaged; the next start unpacks them again.")
        if repair:
            shutil.rmtree(model)
    return problems
