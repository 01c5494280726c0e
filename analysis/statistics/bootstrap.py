"""Percentile bootstrap intervals over cases and, for several runs of a method, over runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
NORMAL = 1.959964  # half the width of a normal distribution's 95 % interval, in standard errors
SEED = 20_260_101
VERDICTS = ("supported", "contradicted", "undecided")
# Up to this many distinct rows a resample is one multinomial draw over the rows' counts.
_MOST_PATTERNS = 128
_BLOCK = 2_000_000  # indices drawn at once


@dataclass(frozen=True)
class Interval:
    """A percentile interval and what was resampled to get it."""

    low: float
    high: float
    unit: str

    @property
    def standard_error(self) -> float:
        """Of a normal distribution with this 95 % interval."""
        return (self.high - self.low) / (2 * NORMAL)

    def verdict(self) -> str:
        """`supported` above zero, `contradicted` below it, `undecided` across it."""
        if self.low > 0:
            return "supported"
        return "contradicted" if self.high < 0 else "undecided"


def resampled_means(
    outcomes: np.ndarray, resamples: int = RESAMPLES, rng: np.random.Generator | int = SEED
) -> np.ndarray:
    """Column means of bootstrap resamples of rows (cases), all columns resampled together.

    Args:
        outcomes: (cases, columns), for instance the correctness of two methods.
        resamples: number of resamples.
        rng: generator or seed.

    Returns:
        (resamples, columns). Where rows take few distinct values, drawing their multinomial counts
        is the same resampling, exactly, at a fraction of the cost.
    """
    rng = np.random.default_rng(rng)
    outcomes = np.asarray(outcomes, dtype=float)
    cases = len(outcomes)
    patterns, counts = np.unique(outcomes, axis=0, return_counts=True)
    if len(patterns) <= _MOST_PATTERNS:
        drawn = rng.multinomial(cases, counts / cases, size=resamples)
        return drawn @ patterns / cases
    means = np.empty((resamples, outcomes.shape[1]))
    block = max(1, _BLOCK // cases)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        index = rng.integers(cases, size=(size, cases))
        means[start : start + size] = outcomes[index].mean(axis=1)
    return means


def percentile_interval(resampled: np.ndarray, unit: str = "case") -> Interval:
    """The central 95 % of resampled statistics."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high), unit)


def runs_and_cases_interval(benchmarks: Sequence[tuple[np.ndarray, np.ndarray]]) -> Interval:
    """Interval of a difference of means over runs and benchmarks, resampling cases and runs.

    Cases are resampled within each benchmark with all runs of both methods kept together. Runs
    are resampled for each method by itself, the same draw for all benchmarks: of R runs R - 1 are
    drawn with replacement, which makes the variance of the drawn mean the unbiased s^2 / R
    (McCarthy and Snowden 1985); drawing R of 3 would understate it by a third. One run stays
    fixed, and only cases are resampled for it.

    Args:
        benchmarks: for each benchmark a pair (minuend, subtrahend) of (runs, cases) arrays of any
            per-case metric; the numbers of runs must not differ between benchmarks.

    Returns:
        the interval of mean(minuend) - mean(subtrahend), averaged over benchmarks, in the unit of
        the metric.
    """
    rng = np.random.default_rng(SEED)
    first_runs, second_runs = (len(part) for part in benchmarks[0])
    first_weights = _run_weights(first_runs, RESAMPLES, rng)
    second_weights = _run_weights(second_runs, RESAMPLES, rng)
    weights = np.hstack([first_weights, -second_weights])
    total = np.zeros(RESAMPLES)
    for first, second in benchmarks:
        means = resampled_means(np.vstack([first, second]).T, rng=rng)
        total += (means * weights).sum(axis=1)
    unit = "case" if first_runs == second_runs == 1 else "case and run"
    return percentile_interval(total / len(benchmarks), unit)


def _run_weights(runs: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples, runs) weights that sum to one: R - 1 of R runs drawn with replacement."""
    if runs == 1:
        return np.ones((resamples, 1))
    return rng.multinomial(runs - 1, np.full(runs, 1 / runs), size=resamples) / (runs - 1)
