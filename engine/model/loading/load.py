"""Choose device and dtype, load a decoder from a folder with a LoRA adapter merged into it, and run its self-test."""

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.errors import BadRequest, ModelNotFound, UnsupportedModel
from engine.model.decoder import Decoder
from engine.model.huge_pages import use_huge_pages
from engine.model.kernels.fused_layer import FusedLayer, LayerOps
from engine.model.kernels.load import KernelChoice
from engine.model.loading.lora import merge_lora
from engine.model.spec import SelfTestResult, check_config

log = logging.getLogger(__name__)
# Root mean square of the logits' differences, in standard deviations of the reference logits.
MAX_DEVIATION = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


def select_dtype(device: str = "auto", dtype: str = "auto") -> tuple[torch.device, torch.dtype, str]:
    """Return the device, the dtype, and both as text for the UI. Raises BadRequest for a bad dtype or a missing GPU."""
    if dtype not in ("auto", "bf16", "fp32"):
        raise BadRequest(f"The dtype is 'auto', 'bf16' or 'fp32', got {dtype!r}.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        raise BadRequest(f"The device {device!r} was requested, but this machine has no CUDA GPU; use --device cpu.")
    torch_device = torch.device(device)
    hardware = _bf16_hardware(torch_device)
    fallback = "no bf16 hardware" if dtype == "auto" else "requested"
    if dtype == "auto":
        dtype = "bf16" if hardware else "fp32"
    reason = hardware if dtype == "bf16" and hardware else fallback
    text = f"{dtype} on the {'GPU' if torch_device.type == 'cuda' else 'CPU'} ({reason})"
    return torch_device, torch.bfloat16 if dtype == "bf16" else torch.float32, text


def _bf16_hardware(device: torch.device) -> str:
    """Return the name of the device's bf16 support; empty if it has none."""
    if device.type == "cuda":
        return "CUDA" if torch.cuda.is_bf16_supported(including_emulation=False) else ""
    capabilities = torch.cpu.get_capabilities()
    return "AMX" if capabilities.get("amx_bf16") else "AVX-512 BF16" if capabilities.get("avx512_bf16") else ""


def load_decoder(
    folder: Path, device: torch.device, dtype: torch.dtype, name: str = "", adapter: Path | None = None
) -> Decoder:
    """Load the model in `folder`. Raises ModelNotFound, LoraAdapterUnusable and UnsupportedModel, early if possible."""
    try:
        check_config(json.loads((folder / "config.json").read_text()), str(folder))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFound(f"The model in {folder} cannot be read ({str(error).splitlines()[0]}).") from error
    if not tokenizer.is_fast:
        raise UnsupportedModel(f"The tokenizer in {folder} provides no character offsets.")
    if adapter is not None:
        if device.type == "cpu":
            with suppress(OSError, RuntimeError):  # the system may refuse so much memory at once
                use_huge_pages(model)  # merging would copy them, page by page
        merge_lora(model, adapter)
    decoder = Decoder(model.to(device).eval(), tokenizer, name or folder.name)
    decoder.selftest_result = selftest(decoder)
    return decoder


@torch.inference_mode()
def selftest(decoder: Decoder) -> SelfTestResult:
    """Check that recomputing all tokens gives full prefill's logits; raises UnsupportedModel if they deviate too much.

    The reference is transformers' own forward pass, which shares no attention, cache or mask code with the engine.
    """
    began = time.perf_counter()
    start, end = 8, 48  # tokens of the first pass, and of all
    ids = torch.randint(0, decoder.spec.vocab_size, (end,), generator=torch.Generator().manual_seed(0))
    reference = decoder.reference_logits(ids)
    buffer = decoder.new_buffer(end)
    decoder.forward_rows(ids[:start], buffer, torch.arange(start))
    buffer.keys[:, :, start:] = 7.0  # stale values that the next pass must replace
    buffer.values[:, :, start:] = 7.0
    decoder.forward_rows(ids[start:], buffer, torch.arange(start, end))
    odd = torch.arange(start + 1, end, 2)
    logits = decoder.forward_rows(ids[odd], buffer, odd)  # the rows between them keep their exact KV
    difference = (logits - reference) / reference.std()
    deviation = float(difference.square().mean().sqrt())
    bound = MAX_DEVIATION[decoder.dtype]
    if not deviation <= bound:
        raise UnsupportedModel(
            f"{decoder.name} failed its self-test: recomputed logits differ by {deviation:.3g} standard deviations."
        )
    return SelfTestResult(deviation, float(difference.abs().max()), bound, (time.perf_counter() - began) * 1e3)


def fuse_layers(decoder: Decoder, kernels: KernelChoice) -> None:
    """Let a decoder on the CPU run its layers fused if the kernels support them; they pass the self-test then too."""
    if kernels.compiled is None or decoder.device.type != "cpu":
        return
    try:
        decoder.layer_ops = ops = LayerOps(kernels.compiled)
        decoder.fused_layers = [FusedLayer(ops, layer) for layer in decoder.model.model.layers]
        decoder.selftest_result = selftest(decoder)
    except (OSError, ValueError, UnsupportedModel) as error:
        decoder.layer_ops, decoder.fused_layers = None, []
        log.info("the layers of %s are not fused: %s", decoder.name, error)
