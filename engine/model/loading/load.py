"""Load a decoder from a folder and run its self-test."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.errors import ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.loading.lora import merge_lora
from engine.model.selftest import selftest
from engine.model.spec import check_config_json


def load_decoder(
    folder: Path, device: torch.device, dtype: torch.dtype, name: str = "", adapter: Path | None = None
) -> Decoder:
    """Load the model in `folder`.

    name     of the decoder; the folder's name by default
    adapter  folder of a LoRA adapter to merge into the weights

    Raises ModelNotFound if files are missing or damaged, and UnsupportedModel if the configuration is unsupported
    (before weights are read) or the self-test fails.
    """
    try:
        check_config_json(json.loads((folder / "config.json").read_text()), str(folder))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFound(f"The model in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not tokenizer.is_fast:
        raise UnsupportedModel(f"The tokenizer in {folder} provides no character offsets.")
    if adapter is not None:
        model = merge_lora(model, adapter)
    decoder = Decoder(model.to(device).eval(), tokenizer, name or folder.name)
    decoder.selftest_result = selftest(decoder)
    return decoder
