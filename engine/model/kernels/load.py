"""Compile the kernels on this machine, and load the attention if it is right and faster than torch's there.

The library and the result of its probe, or why it could not be compiled, are kept in a folder, under a key of source,
compiler and processor. Whatever goes wrong leaves torch's attention in use, with the reason as a sentence.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.model.kernels.probe import ProbeResult
from engine.model.kernels.slot_attention import SlotAttention
from store.atomic import write_atomic

FOLDER = Path(__file__).parent
SOURCES = ("slot_attention.cpp", "layer_ops.cpp", "linear.cpp", "decode_step.cpp")
HEADERS = ("simd.h", "tiles.h", "decode_attention.h")
COMPILERS = ("c++", "g++", "clang++")  # the first that exists, after $CXX
# Without contraction of a * b + c, results do not depend on how the compiler unrolls: rows stay independent of others.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fopenmp", "-shared", "-fPIC")
INSTRUCTIONS = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mavx512vnni", "-mfma")
DIGEST = "sha256"  # key of the library's digest in the stored result
TIMEOUT_S = 60.0  # of compiling, and of the probe; they take 5 s and 4 s
RETRY_S = 86400.0  # after which a failed compile is tried again
MAX_ERROR_RATIO = 1.5  # of the kernel's error to torch's
MIN_SPEEDUP = 1.1
log = logging.getLogger(__name__)


class KernelUnavailable(Exception):
    """Says why the kernel is not used."""


@dataclass(frozen=True)
class KernelChoice:
    """The attention that is used on the CPU, and why."""

    attention: SlotAttention | None  # None: torch's
    reason: str  # a sentence for users
    compiled: Path | None = None  # library with all kernels, if this machine runs it; also if torch attends faster


def choose_kernels(folder: Path, timeout_s: float = TIMEOUT_S) -> KernelChoice:
    """Return the kernels if this machine can compile and run them, and they are right; never raises.

    `folder` keeps what was compiled and measured. Later calls read it.
    """
    try:
        compiler = _find_compiler()
        library = folder / f"kernels-{_machine_key(compiler)}.so"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder)
        result = _read_result(library)
        if result is None:
            result = _build_once(compiler, library, timeout_s)
            with suppress(OSError):  # it is measured again at the next start
                stored = asdict(result) | {DIGEST: _digest(library)}
                write_atomic(library.with_suffix(".json"), json.dumps(stored).encode())
        _check(result)
        if result.speedup < MIN_SPEEDUP:
            reason = f"torch's: the kernel has {result.speedup:.2f}x its speed on this processor."
            return KernelChoice(None, reason, library)
        reason = f"KVScope's kernel, {result.speedup:.1f}x torch's speed."
        return KernelChoice(SlotAttention(library), reason, library)
    except (KernelUnavailable, OSError) as error:
        log.info("torch's attention is used: %s", error)
        return KernelChoice(None, f"torch's: {error}")
    except Exception as error:
        log.exception("the attention kernel could not be used")
        return KernelChoice(None, f"torch's: the kernel could not be used ({type(error).__name__}), see the log.")


def _find_compiler() -> str:
    """Return the path of a C++ compiler. Raises KernelUnavailable also where the kernel cannot run."""
    capabilities = torch.cpu.get_capabilities()
    if sys.platform != "linux" or not (capabilities.get("avx512_bf16") and capabilities.get("avx512_vnni")):
        raise KernelUnavailable("the kernel needs Linux and a processor with AVX-512 BF16 and VNNI.")
    names = [os.environ["CXX"]] if os.environ.get("CXX") else COMPILERS
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise KernelUnavailable(f"there is no C++ compiler ({', '.join(names)}); with g++ it could be compiled.")
    return found


def _machine_key(compiler: str) -> str:
    """Return a key of everything that the library and its speed depend on."""
    processor = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "\n".join(dict.fromkeys(line for line in lines if line.startswith(("model", "vendor_id", "flags"))))
    stat = Path(compiler).resolve().stat()
    build = (
        [(FOLDER / name).read_text() for name in (*SOURCES, *HEADERS)],
        FLAGS,
        INSTRUCTIONS,
        compiler,
        stat.st_size,
        stat.st_mtime,
    )
    parts = *build, processor, torch.__version__, torch.get_num_threads()
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _check_private(folder: Path) -> None:
    """Raise KernelUnavailable if another user could put a library into the folder."""
    stat = folder.stat()
    if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
        raise KernelUnavailable(f"other users can write to {folder}, where the kernel would be kept.")


def _read_result(library: Path) -> ProbeResult | None:
    """Return the stored result of the probe; None unless it is complete and of this very library."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        stored = json.loads(library.with_suffix(".json").read_text())
        if stored.pop(DIGEST) == _digest(library):
            return ProbeResult(**{name: float(value) for name, value in stored.items()})
    return None


def _digest(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def _build_once(compiler: str, library: Path, timeout_s: float) -> ProbeResult:
    """Compile the sources and return the result of the probe.

    If that failed less than RETRY_S ago, raise KernelUnavailable with that reason instead. Later it is tried again: a
    missing header or a full disk may be no more, which the key does not tell.
    """
    failure = library.with_suffix(".failed")
    with suppress(OSError):
        if time.time() - failure.stat().st_mtime < RETRY_S:
            raise KernelUnavailable(failure.read_text("utf-8", "replace"))
    try:
        _compile(compiler, library, timeout_s)
        return _probe(library, timeout_s)
    except KernelUnavailable as error:
        with suppress(OSError):
            write_atomic(failure, str(error).encode())
        raise


def _compile(compiler: str, library: Path, timeout_s: float) -> None:
    """Compile the sources; the library appears complete or not at all. Raises KernelUnavailable and OSError."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        target = Path(folder) / library.name
        sources = [str(FOLDER / name) for name in SOURCES]
        amx = ["-DUSE_AMX"] if torch.cpu.get_capabilities().get("amx_bf16") else []
        _run([compiler, *FLAGS, *INSTRUCTIONS, *amx, "-o", str(target), *sources], "compiling", timeout_s)
        os.replace(target, library)


def _probe(library: Path, timeout_s: float) -> ProbeResult:
    """Return the result of the probe in a process of its own. Raises KernelUnavailable."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    # -P: without the current folder, which may hold modules of the same names
    command = [sys.executable, "-P", "-m", "engine.model.kernels.probe", str(library)]
    output = _run(command, "the self-test", timeout_s, environment)
    try:
        return ProbeResult(**json.loads(output.splitlines()[-1]))
    except (ValueError, IndexError, TypeError) as error:
        raise KernelUnavailable("the self-test printed no result.") from error


def _run(command: list[str], action: str, timeout_s: float, environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints. Raises KernelUnavailable if it fails or takes too long."""
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    with subprocess.Popen(command, env=environment, start_new_session=True, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise KernelUnavailable(f"{action} took more than {timeout_s:g} s.") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a compiler has processes of its own
    if process.returncode:
        last = (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        raise KernelUnavailable(f"{action} failed ({last[:200]}).")
    return str(output)


def _check(result: ProbeResult) -> None:
    """Raise KernelUnavailable for a kernel that is wrong."""
    if not result.error <= MAX_ERROR_RATIO * result.torch_error:  # also if it is NaN
        raise KernelUnavailable(f"the kernel's error is {result.error:.2g}, torch's {result.torch_error:.2g}.")
