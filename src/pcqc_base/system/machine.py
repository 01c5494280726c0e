"""The machine that a result was made on, as manifests record it, and its clock."""

import contextlib
import importlib.metadata
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

# Packages whose version may show in a result.
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "vllm", "deepspeed")
# What holds the libraries that compute to the instructions of AVX2.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}


def machine() -> dict[str, str]:
    """Where a job runs: host, processor, its instructions, GPU, Python, packages that compute.

    A package that this process has imported is asked itself: another installation of it may stand
    earlier on the path, or have another name, as vLLM's build for CPUs has.
    """
    entries = {
        "host": platform.node(),
        "processor": _processor(),
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        if version := getattr(sys.modules.get(name), "__version__", None):
            entries[name] = str(version)
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            entries[name] = importlib.metadata.version(name)
    if torch := sys.modules.get("torch"):
        entries["instructions"] = torch.backends.cpu.get_cpu_capability()
    return entries | _gpu()


def _gpu() -> dict[str, str]:
    """Of a process that used a GPU: which, and whether its samples depend on their batch."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    invariant = os.environ.get("VLLM_BATCH_INVARIANT", "0") != "0"
    return {"gpu": cuda.get_device_name(), "batch_invariant": "on" if invariant else "off"}


def hold_to_avx2() -> None:
    """Let a processor with AVX-512 round as one without; before torch is imported.

    What the environment says already stays.
    """
    if "avx512f" in _cpuinfo():
        for name, value in AVX2.items():
            os.environ.setdefault(name, value)


def now() -> str:
    """The time in UTC, to the second: `2026-01-31T12:00:00+00:00`."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    """Name of the processor; on Linux the one that the kernel gives."""
    lines = _cpuinfo().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cpuinfo() -> str:
    """What the kernel says of the processors; empty where it says nothing."""
    path = Path("/proc/cpuinfo")
    return path.read_text(errors="replace") if path.exists() else ""
