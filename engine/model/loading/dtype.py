"""Which number format a machine computes fastest in without losing the answer: bf16 where the hardware has it."""

import torch


def select_dtype(device: str = "auto", dtype: str = "auto") -> tuple[torch.device, torch.dtype, str]:
    """Return the device, the dtype and one phrase that says why, for the page.

    device  'auto', 'cpu', 'cuda' or 'cuda:1'
    dtype   'auto', 'bf16' or 'fp32'

    Raises ValueError for another word, or for a GPU that is not there.
    """
    if dtype not in ("auto", "bf16", "fp32"):
        raise ValueError(f"dtype is 'auto', 'bf16' or 'fp32', got {dtype!r}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but this machine has no CUDA GPU; use --device cpu")
    place = torch.device(device)
    reason = _bf16_hardware(place)
    half = dtype == "bf16" or (dtype == "auto" and bool(reason))
    name = "GPU" if place.type == "cuda" else "CPU"
    said = reason if half and reason else ("asked for" if dtype != "auto" else "no bf16 hardware")
    return (
        place,
        torch.bfloat16 if half else torch.float32,
        f"{'bf16' if half else 'fp32'} on the {name} ({said})",
    )


def _bf16_hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return "CUDA" if torch.cuda.is_bf16_supported(including_emulation=False) else ""
    able = torch.cpu.get_capabilities()
    return "AMX" if able.get("amx_bf16") else "AVX-512 BF16" if able.get("avx512_bf16") else ""
