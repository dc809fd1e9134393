"""Load a decoder from a folder and prove that reuse is exact on it before anyone relies on it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import merged
from engine.model.selftest import selftest
from engine.model.spec import check


def load(
    folder: Path, device: torch.device, dtype: torch.dtype, name: str = "", adapter: Path | None = None
) -> Decoder:
    """Return the decoder in `folder`, with `adapter` merged in, on `device`, in `dtype`, after its self-test.

    Raises UnsupportedModel before any weight is read where the configuration says so, or after the self-test, and
    ModelNotFound if the files are missing or torn.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
        if not isinstance(config, dict) or "model_type" not in config:
            raise ModelNotFound(f"The config.json in {folder} does not describe a model.")
        check(SimpleNamespace(**config))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFound(f"The model in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not tokenizer.is_fast:
        raise UnsupportedModel(f"The tokenizer in {folder} gives no character offsets.")
    if adapter is not None:
        model = merged(model, adapter)
    decoder = Decoder(model.to(device).eval(), tokenizer, name or folder.name)
    decoder.selftest_result = selftest(decoder)
    return decoder
