"""Calls in turn, medians with quartiles, and the rows of the benchmarks' table.

On a busy machine a second means little. The calls that are compared alternate, A B A B, and a ratio
is taken within each round: other work on the machine slows both sides of it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pcqc_gpu.timed_updates import timed


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
    """One row of the table: what was measured, and the least value that it should have."""

    what: str
    value: Quartiles
    unit: str
    least: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the median reaches its bound; None where there is no bound."""
        return None if self.least is None else self.value.median >= self.least


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in every round but a first one, which warms up.

    A round is one call of each, in this order.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(1 + rounds):
        for name, call in calls.items():
            seconds[name].append(timed(call))
    return {name: values[1:] for name, values in seconds.items()}


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Quartiles:
    """Quartiles of the ratio within each round."""
    return Quartiles.of([a / b for a, b in zip(numerators, denominators, strict=True)])


def report(findings: Sequence[Finding]) -> int:
    """Print findings as JSON; the exit status, 1 if a bound is missed."""
    rows = [{**asdict(finding), "holds": finding.holds} for finding in findings]
    print(json.dumps({"findings": rows}, indent=1))
    return 1 if any(row["holds"] is False for row in rows) else 0
