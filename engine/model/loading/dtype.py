"""Choice of device and dtype: a GPU if there is one, and bf16 if the hardware supports it."""

import torch

from engine.errors import BadRequest


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
