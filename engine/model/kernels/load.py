"""Compile the attention kernel on this machine, and load it if it is right and faster than torch's attention there.

The library and the result of its probe are kept in a folder, under a key of source, compiler and processor. Whatever
goes wrong leaves torch's attention in use, with the reason as a sentence.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.model.kernels.probe import ProbeResult
from engine.model.kernels.slot_attention import SlotAttention
from store.atomic import write_atomic

SOURCE = Path(__file__).with_name("slot_attention.cpp")
COMPILERS = ("c++", "g++", "clang++")  # the first that exists, after $CXX
FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC")
INSTRUCTIONS = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mfma")
TIMEOUT_S = 60.0  # of compiling, and of the probe; they take 2 s and 4 s
MAX_ERROR_RATIO = 1.5  # of the kernel's error to torch's
MIN_SPEEDUP = 1.1
log = logging.getLogger(__name__)


class KernelUnavailable(Exception):
    """Says why the kernel is not used."""


@dataclass(frozen=True)
class AttentionChoice:
    """The attention that is used on the CPU, and why."""

    kernel: SlotAttention | None  # None: torch's
    reason: str  # a sentence for users


def choose_attention(folder: Path, timeout_s: float = TIMEOUT_S) -> AttentionChoice:
    """Return the kernel if this machine can compile and run it, and it is right and faster; never raises.

    `folder` keeps what was compiled and measured. Later calls read it.
    """
    try:
        compiler = _find_compiler()
        library = folder / f"slot_attention-{_machine_key(compiler)}.so"
        result = _read_result(library)
        if result is None:
            folder.mkdir(parents=True, exist_ok=True)
            _compile(compiler, library, timeout_s)
            result = _probe(library, timeout_s)
            write_atomic(library.with_suffix(".json"), json.dumps(result).encode())
        _check(ProbeResult(**result))
        return AttentionChoice(SlotAttention(library), f"KVScope's kernel, {result['speedup']:.1f}x torch's speed.")
    except (KernelUnavailable, OSError) as error:
        log.info("torch's attention is used: %s", error)
        return AttentionChoice(None, f"torch's: {error}")


def _find_compiler() -> str:
    """Return the path of a C++ compiler. Raises KernelUnavailable also where the kernel cannot run."""
    if sys.platform != "linux" or not torch.cpu.get_capabilities().get("avx512_bf16"):
        raise KernelUnavailable("the kernel needs Linux and a processor with AVX-512 BF16.")
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
    build = SOURCE.read_text(), FLAGS, INSTRUCTIONS, compiler, stat.st_size, stat.st_mtime
    parts = *build, processor, torch.__version__, torch.get_num_threads()
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _read_result(library: Path) -> dict[str, float] | None:
    """Return the stored result of the probe; None if there is none for an existing library."""
    with suppress(OSError, ValueError, TypeError):
        stored = json.loads(library.with_suffix(".json").read_text())
        ProbeResult(**stored)
        return stored if library.is_file() else None
    return None


def _compile(compiler: str, library: Path, timeout_s: float) -> None:
    """Compile the source; the library appears complete or not at all. Raises KernelUnavailable and OSError."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        target = Path(folder) / library.name
        _run([compiler, *FLAGS, *INSTRUCTIONS, "-o", str(target), str(SOURCE)], "compiling", timeout_s)
        os.replace(target, library)


def _probe(library: Path, timeout_s: float) -> dict[str, float]:
    """Return the result of the probe in a process of its own. Raises KernelUnavailable."""
    root = str(Path(__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    environment |= {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [sys.executable, "-m", "engine.model.kernels.probe", str(library)]
    output = _run(command, "the self-test", timeout_s, environment)
    try:
        result: dict[str, float] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise KernelUnavailable("the self-test printed no result.") from error
    return result


def _run(command: list[str], action: str, timeout_s: float, environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints. Raises KernelUnavailable if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, env=environment, timeout=timeout_s, capture_output=True, text=True, errors="replace", check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KernelUnavailable(f"{action} took more than {timeout_s:g} s.") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise KernelUnavailable(f"{action} failed ({last[:200]}).")
    return done.stdout


def _check(result: ProbeResult) -> None:
    """Raise KernelUnavailable for a kernel that is wrong or slow."""
    if not result.error <= MAX_ERROR_RATIO * result.torch_error:  # also if it is NaN
        raise KernelUnavailable(f"the kernel's error is {result.error:.2g}, torch's {result.torch_error:.2g}.")
    if result.speedup < MIN_SPEEDUP:
        raise KernelUnavailable(f"the kernel has {result.speedup:.2f}x its speed on this processor.")
