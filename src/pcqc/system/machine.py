"""The machine that a result was made on, as manifests record it, and its clock."""

import contextlib
import functools
import importlib.metadata
import platform
from datetime import UTC, datetime
from pathlib import Path

# Packages whose version may show in a result.
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "vllm", "deepspeed")


@functools.cache
def machine() -> dict[str, str]:
    """Where a job runs: host, processor, Python, and versions of the packages that compute."""
    entries = {
        "host": platform.node(),
        "processor": _processor(),
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            entries[name] = importlib.metadata.version(name)
    return entries


def now() -> str:
    """The time in UTC, to the second: `2026-01-31T12:00:00+00:00`."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    """Name of the processor; on Linux the one that the kernel gives."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
