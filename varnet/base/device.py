"""The machine: which device, how many threads, and two settings without which a CPU wastes its time."""

import ctypes

import torch

from varnet.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda", "mps")
BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")  # instructions, as torch.cpu.get_capabilities names them


def find(device: str = "auto") -> torch.device:
    """The device of the given name; `auto` is CUDA, else MPS, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps() else "cpu")
    kind = str(device).split(":")[0]
    if kind not in DEVICES:
        raise _unknown(device)
    if (kind == "cuda" and not torch.cuda.is_available()) or (kind == "mps" and not has_mps()):
        raise ConfigError("is not on this machine: use device=auto or device=cpu", "device", device)
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise _unknown(device) from error
    if kind != "cuda" and found.index:
        raise ConfigError(f"is not on this machine: use device={kind}", "device", device)
    if kind == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        remedy = f"use device=cuda:N with N below {torch.cuda.device_count()}"
        raise ConfigError(f"is not on this machine: {remedy}", "device", device)
    return found


def _unknown(device: str) -> ConfigError:
    return ConfigError(f"is not known: choose one of {', '.join(DEVICES)}, or cuda:N", "device", device)


def has_mps() -> bool:
    return torch.backends.mps.is_available()


def has_bfloat16() -> bool:
    """Whether this machine's processor is known to have bfloat16 instructions."""
    has = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(has.get(name) for name in BFLOAT16)


def caution(device: torch.device, precision: str) -> str | None:
    """A sentence where bf16 would cost time instead of saving it: products are then emulated (measured: 9 times)."""
    if device.type != "cpu" or precision != "bf16" or not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return None
    if has_bfloat16():
        return None
    return "precision=bf16 is far slower than fp32 on this CPU, which has no bfloat16 instructions: leave it out"


def tune_cpu(threads: int | None = None) -> None:
    """Threads (all cores by default), no denormal numbers, and memory that stays with the process.

    Means go to 0 while alpha grows, and products of denormal numbers are up to a hundred times slower. Without the
    second setting glibc hands every large tensor back to the system and the next step faults it in again, page by
    page: measured here, 20 of the 120 ms of a LeNet-5 step with four variational layers.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    keep_memory()


def keep_memory() -> None:
    """Ask glibc to keep freed memory; does nothing elsewhere."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    mallopt(mmap_threshold, 32 * 2**20)
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 * 2**20)
