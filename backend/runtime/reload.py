"""Other settings without a restart, one change at a time, and never without a way back.

What can be told beforehand is told beforehand: downloads and the checks of a configuration happen while the present
models still answer. Only then is what is under way stopped, the house closed and the new one built, in that order, so
that two models need not fit into memory at once. If that fails, the earlier house is built again. KV on disk is filed
under its model's fingerprint: it stays where it is, and is found again when the model comes back.
Budgets alone need none of this: the tiers take them over at once, with all that they hold.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event, RLock, Thread

from backend.interface.backend import Status
from backend.runtime.loader import GIB, LAST_STEP_S, RuntimeLoader, model_config, reason
from backend.runtime.settings import Settings
from backend.runtime.tasks import TaskRegistry
from engine.builder import fetch_models, release_memory
from engine.cache.admin import CacheAdmin, Evicted
from engine.errors import BadRequest, Cancelled, ModelNotReady
from store.errors import KVScopeError
from store.retrieval.reranker import fetch as fetch_reranker

BUDGETS = {"device": "device_gib", "host": "host_gib", "disk": "disk_gib"}  # the setting of each tier
log = logging.getLogger("kvscope")


class NothingChanges(KVScopeError):
    hint = "Choose something else first."


class Reloader:
    """Changes the settings of a loader's house, in a thread of its own.

    keep   called with settings that work, to remember them
    fixed  the flag or variable that fixes a choice, by the choice's name: the page cannot change it

    `trouble` says why the latest change was not made, and what answers now; empty if it was.
    """

    def __init__(
        self, loader: RuntimeLoader, work: TaskRegistry, keep: Callable[[Settings], None], fixed: Mapping[str, str]
    ) -> None:
        self._loader, self._work, self._keep, self._fixed = loader, work, keep, fixed
        self._stopped, self._one = Event(), RLock()
        self._thread: Thread | None = None
        self.fetching, self.trouble = False, ""

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, wanted: Settings) -> None:
        """Start to change to these settings; other budgets are in use when this returns.

        Raises NothingChanges, BadRequest for what a flag has fixed, ModelNotReady while something is loading, and what
        `rebudget` raises.
        """
        with self._one:
            new, old = wanted.choices(), self._loader.settings.choices()
            changed = {name for name in new if new[name] != old[name]}
            self._check_free(changed)
            if self.running or self._loader.loading:
                raise ModelNotReady(f"{self._loader.status.line}.")
            if wanted == self._loader.settings and self._loader.runtime is not None:
                raise NothingChanges("These settings are in use already.")
            self.trouble = ""
            tiers = {BUDGETS[tier.name]: tier.name for tier in self._loader.tiers()}
            if changed and changed <= tiers.keys():
                self.rebudget({tiers[name]: int(new[name] * GIB) for name in changed})
                return
            self._stopped.clear()
            self._thread = Thread(target=self._run, args=[wanted], name="reloading", daemon=True)
            self._thread.start()

    def rebudget(self, budgets: Mapping[str, int]) -> Evicted:
        """Give tiers other budgets, in bytes by name, evict down to them, and remember them.

        Raises ModelNotReady, BadRequest for what a flag has fixed, and what `Control.set_budgets` raises, with nothing
        changed.
        """
        with self._one:
            if self.running:
                raise ModelNotReady(f"{self._loader.status.line}.")
            self._check_free(BUDGETS[tier] for tier in budgets if tier in BUDGETS)
            evicted = CacheAdmin(self._loader.ready().tiers.tree).set_budgets(budgets)
            chosen = {BUDGETS[tier]: round(size_bytes / GIB, 3) for tier, size_bytes in budgets.items()}
            self._loader.settings = self._loader.settings.with_choices(chosen)
            self._remember(self._loader.settings)
            return evicted

    def stop(self) -> None:
        """End a download; what is loaded goes on. Once the house is being rebuilt it is too late."""
        self._stopped.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the change has ended, well or badly."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _check_free(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            if flag := self._fixed.get(name):
                raise BadRequest(f"This was fixed with {flag} when KVScope started. Start it without, to choose here.")

    def _run(self, wanted: Settings) -> None:
        loader, shown = self._loader, self._loader.status
        first = loader.runtime is None
        named = (model_config(wanted), wanted.reranker)
        if first or named != (model_config(loader.settings), loader.settings.reranker):
            self.trouble = self._fetch(wanted)
        if self.trouble:
            loader.say(shown)
            return
        loader.say(Status(ready=False, line="Closing what is loaded", share=0.78))
        with self._work.drained(LAST_STEP_S):
            line = self._exchange(wanted)
        if loader.runtime is None:
            self.trouble = "" if self._work.closing else line
            loader.say(Status(ready=False, line=line, failed=not self._work.closing))
            return
        if first:
            loader.settled(line)
        loader.say(Status(ready=True, line=line))

    def _fetch(self, wanted: Settings) -> str:
        """Bring the models' files here; return what went wrong, in a sentence."""
        self.fetching = True
        try:
            fetch_models(model_config(wanted), self._report)
            if wanted.reranker not in ("off", self._loader.settings.reranker):
                self._report(f"Downloading {Path(wanted.reranker).name}", 0.76)
                fetch_reranker(wanted.reranker)
        except Cancelled:
            return "The download was stopped. What has arrived is used when it is begun again."
        except Exception as error:  # noqa: BLE001  the page says it
            return f"{reason(error)} Nothing was changed."
        finally:
            self.fetching = False
        return ""

    def _exchange(self, wanted: Settings) -> str:
        """Build another house in place of the present one, or the present one again; return the line to show."""
        loader, earlier, house = self._loader, self._loader.settings, self._loader.runtime
        same = house is not None and model_config(wanted) == model_config(earlier)
        models = house.models if house is not None and same else None
        had = house is not None
        del house
        try:
            loader.release()
            loader.settings = wanted
            line = loader.open(models)
        except Cancelled:
            return "Closed"
        except Exception as error:  # noqa: BLE001  the page says it
            why = reason(error)
        else:
            self._remember(wanted)
            return line
        loader.settings = earlier  # here, where nothing holds what was half loaded any more
        release_memory()
        if not had:
            return why
        try:
            line = loader.open(models)
        except Cancelled:
            return "Closed"
        except Exception as error:  # noqa: BLE001  the page says it
            return f"{why} What was there before cannot be loaded again either: {reason(error)}"
        self.trouble = f"{why} What was there before is in use again."
        return line

    def _remember(self, wanted: Settings) -> None:
        try:
            self._keep(wanted)
        except KVScopeError as error:
            log.error("%s", error)
            self.trouble = f"This is in use now, but it is forgotten at the next start. {error}"

    def _report(self, said: str, share: float) -> None:
        """Tell what is being fetched; the present models answer meanwhile."""
        if self._stopped.is_set() or self._work.closing:
            raise Cancelled
        self._loader.say(Status(ready=self._loader.runtime is not None, line=said, share=share))
