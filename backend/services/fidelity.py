"""Calibrates the loaded model in idle time: how close answers with reused KV are to those of full prefill."""

import logging
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

from backend.interface.models import FidelityStatus
from backend.runtime.loader import Runtime, RuntimeLoader, model_config
from backend.runtime.tasks import TaskRegistry
from engine.analysis.calibration import Calibration, calibrate, calibration_engine
from engine.builder import measurement_file

IDLE_S = 30.0  # without any task before a calibration starts or continues
POLL_S = 1.0
log = logging.getLogger("kvscope")


@dataclass
class IdleCalibration:
    """A thread that measures question by question while nothing else runs, and gives way to any task."""

    loader: RuntimeLoader
    tasks: TaskRegistry
    _calibration: Calibration | None = None  # of _runtime
    _runtime: Runtime | None = None
    _is_running: bool = False
    _error: str = ""
    _closed: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)

    def start(self) -> None:
        Thread(target=self._run, name="calibration", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def status(self) -> FidelityStatus:
        """Return the progress for the loaded model."""
        if (runtime := self.loader.runtime) is None:
            return FidelityStatus()
        calibration = self.of(runtime)
        total = len(calibration.questions)
        return FidelityStatus(
            total - len(calibration.remaining),
            total,
            calibration.curve(),
            self.loader.settings.idle_calibration,
            self._is_running,
            self._error,
        )

    def of(self, runtime: Runtime) -> Calibration:
        """Return the calibration of a runtime, with what was measured before; the engine gets its curve."""
        with self._lock:
            if self._calibration is None or self._runtime is not runtime:
                settings = self.loader.settings
                has_selector = model_config(settings).token_selector_folder is not None
                path = measurement_file(runtime.models.primary, settings.data, "fidelity")
                self._calibration = Calibration("cacheclip-trained" if has_selector else "cacheclip", path)
                self._runtime, self._error = runtime, ""
                runtime.engine.fidelity = self._calibration.curve()
            return self._calibration

    def _run(self) -> None:
        while not self._closed.wait(POLL_S):
            runtime = self.loader.runtime
            if runtime is None or self.tasks.idle_seconds() < IDLE_S or not self.of(runtime).remaining:
                continue
            if not self._error:
                self._continue(runtime)

    def _continue(self, runtime: Runtime) -> None:
        cancel = Event()
        with self.tasks.track_idle_work(cancel):
            if cancel.is_set():
                return
            calibration = self.of(runtime)
            self._is_running = True
            try:
                engine = calibration_engine(runtime.models, calibration.passages, runtime.engine.scheduler)
                for measured in calibrate(engine, calibration, cancel):
                    runtime.engine.fidelity = measured.curve()
            except Exception as error:  # shown on the page; the application works without it
                log.error("the model could not be calibrated", exc_info=error)
                self._error = f"The calibration failed ({type(error).__name__}: {error})."
            finally:
                self._is_running = False
