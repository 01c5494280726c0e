"""Typed access to the numbers that the paper prints (`published.yaml`)."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.statistics.bootstrap import Interval
from analysis.statistics.estimates import Estimate

FILE = Path(__file__).with_name("published.yaml")
RUNS = 3  # independent RL runs behind a mean with a standard deviation


@dataclass(frozen=True)
class PublishedBenchmark:
    """One of the paper's four benchmarks; roles as in a study."""

    title: str
    cases: int
    role: str


@dataclass(frozen=True)
class PairedRow:
    """A paired comparison: gain and interval in percentage points, p as printed."""

    benchmark: str
    minuend: str
    subtrahend: str
    gain: float
    low: float
    high: float
    p: str

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high, "case")


@dataclass(frozen=True)
class RunsRow:
    """PCQC's accuracy by run, with mean and sample SD, in percent."""

    runs: tuple[float, ...]
    mean: float
    sd: float


@dataclass(frozen=True)
class Published:
    """The published numbers; `tables` holds each table as printed, for what needs no type."""

    benchmarks: dict[str, PublishedBenchmark]
    methods: dict[str, str]
    paired: tuple[PairedRow, ...]
    pcqc_runs: dict[str, RunsRow]
    tables: dict[str, Any]

    @property
    def development(self) -> str:
        return next(n for n, b in self.benchmarks.items() if b.role == "development")

    @property
    def primary(self) -> list[str]:
        """Benchmarks without the independent sources, as in the three-benchmark means."""
        return [n for n, b in self.benchmarks.items() if b.role != "independent_source"]

    def gain(self, minuend: str, subtrahend: str, benchmark: str) -> float:
        """The gain of a paired comparison, in percentage points."""
        wanted = (minuend, subtrahend, benchmark)
        return next(r.gain for r in self.paired if (r.minuend, r.subtrahend, r.benchmark) == wanted)

    def by_benchmark(self, *path: str) -> dict[str, dict[str, Estimate]]:
        """method -> benchmark (and `average`) -> estimate, of a table with means and SDs."""
        table = self.tables
        for key in path:
            table = table[key]
        return {
            method: {name: estimate(printed) for name, printed in row.items()}
            for method, row in table.items()
        }


def estimate(printed: float | list[float]) -> Estimate:
    """A printed mean, with its SD over three runs where one is printed."""
    values = printed if isinstance(printed, list) else [printed]
    if len(values) == 2:
        return Estimate(values[0], values[1], RUNS)
    return Estimate(values[0], None, 1)


@cache
def published() -> Published:
    """Read `published.yaml`, once."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return Published(
        benchmarks={n: PublishedBenchmark(**b) for n, b in data.pop("benchmarks").items()},
        methods={n: m["title"] for n, m in data.pop("methods").items()},
        paired=tuple(_paired_row(**row) for row in data.pop("paired")),
        pcqc_runs={
            n: RunsRow(tuple(row["runs"]), row["mean"], row["sd"])
            for n, row in data.pop("pcqc_runs").items()
        },
        tables=data,
    )


def _paired_row(interval: list[float], **row: Any) -> PairedRow:
    low, high = interval
    return PairedRow(low=low, high=high, **row)
