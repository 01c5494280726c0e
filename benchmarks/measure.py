"""Calls in turn, medians with quartiles, and the rows of the benchmarks' tables.

On a busy machine a second means little. The calls that are compared alternate, A B A B, and a ratio
is taken within each round: other work on the machine slows both sides of it.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

from pcqc_base.errors import one_line, reason
from pcqc_base.system.files import write_atomic, write_json
from pcqc_base.system.machine import machine
from pcqc_gpu.timed_updates import gpu_name, timed


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


def measured_on(here: Mapping[str, object]) -> str:
    """A line that says where figures were measured."""
    return f"Measured on: {', '.join(f'{name} {value}' for name, value in sorted(here.items()))}."


def _here() -> dict[str, str]:
    """This machine, with the versions of what is imported by now."""
    return {"gpu": gpu_name() or "none"} | machine()


class Page:
    """Tables that are written with each row, so that what was measured stays if the rest fails.

    Args:
        name: they are results/NAME.json and results/NAME.md.

    Attributes:
        tables: title -> rows; those of a table may have different columns.
    """

    def __init__(self, name: str):
        self.path = Path("results") / f"{name}.json"
        self.tables: dict[str, list[dict]] = {}

    def add(self, title: str, given: Mapping, measure: Callable[[], Mapping | list]) -> None:
        """Rows: what is `given`, and what was measured, or in one line why that failed.

        Args:
            title: of the table.
            given: columns that come first.
            measure: the other columns of a row, or of several.
        """
        print(f"{title}: {', '.join(map(str, given.values()))} ...", file=sys.stderr, flush=True)
        try:
            measured = measure()
        except Exception as problem:
            measured = {"failed": one_line(f"{type(problem).__name__}: {reason(problem)}")}
        rows = measured if isinstance(measured, list) else [measured]
        self.tables.setdefault(title, []).extend({**given, **row} for row in rows)
        write_json(self.path, {"machine": _here(), "tables": self.tables})
        write_atomic(self.path.with_suffix(".md"), str(self))

    def __str__(self) -> str:
        parts = [measured_on(_here())]
        for title, rows in self.tables.items():
            shown = [
                {k: v.replace("|", "/") if isinstance(v, str) else v for k, v in row.items()}
                for row in rows
            ]
            parts += [f"## {title}"]
            parts += [tabulate(shown, headers="keys", tablefmt="github", floatfmt=".4g")]
        return "\n\n".join(parts) + "\n"

    def end(self) -> int:
        """Print the page; the exit status, 1 if a row failed."""
        print(self)
        return int(any("failed" in row for rows in self.tables.values() for row in rows))
