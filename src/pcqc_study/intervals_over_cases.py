"""Intervals over cases: percentile bootstraps as in the paper; exact ones where nothing varies."""

from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
NORMAL = 1.959964  # half the width of a normal distribution's 95 % interval, in standard errors
SEED = 20_260_101
# Up to this many distinct rows a resample is one multinomial draw over the rows' counts.
_MOST_PATTERNS = 128
_BLOCK = 2_000_000  # indices drawn at once


ALIKE = 1e-9  # values closer than this are equal but for rounding


@dataclass(frozen=True)
class Interval:
    """An interval over cases; `exact` where all had the same value, else a percentile one."""

    low: float
    high: float
    exact: bool = False

    @property
    def standard_error(self) -> float:
        """Of a normal distribution with this 95 % interval."""
        return (self.high - self.low) / (2 * NORMAL)


def resampled_means(outcomes: np.ndarray, rng: np.random.Generator | int = SEED) -> np.ndarray:
    """Column means of bootstrap resamples of rows (cases), all columns resampled together.

    Args:
        outcomes: (cases, columns), for instance the correctness of two methods.
        rng: generator or seed.

    Returns:
        (`RESAMPLES`, columns). Where rows take few distinct values, drawing their multinomial
        counts is the same resampling, exactly, at a fraction of the cost.
    """
    rng = np.random.default_rng(rng)
    outcomes = np.asarray(outcomes, dtype=float)
    cases = len(outcomes)
    patterns, counts = np.unique(outcomes, axis=0, return_counts=True)
    if len(patterns) <= _MOST_PATTERNS:
        drawn = rng.multinomial(cases, counts / cases, size=RESAMPLES)
        return drawn @ patterns / cases
    means = np.empty((RESAMPLES, outcomes.shape[1]))
    block = max(1, _BLOCK // cases)
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        index = rng.integers(cases, size=(size, cases))
        means[start : start + size] = outcomes[index].mean(axis=1)
    return means


def alike(values: np.ndarray) -> bool:
    """Whether all values are the same, so that resampling them shows no error."""
    return float(np.ptp(values)) <= ALIKE


def exact_interval(value: float, count: int, lowest: float, highest: float) -> Interval:
    """The exact 95 % interval of a mean of which `count` independent values are all the same.

    A share q of all values is `value`. To see `count` of them has the chance q^count, at least
    2.5 % where q is 0.025^(1/count) or more (Clopper and Pearson 1934). The others may lie anywhere
    from `lowest` to `highest`.
    """
    others = 1 - ((1 - CONFIDENCE) / 2) ** (1 / count) if count else 1.0
    return Interval(value - others * (value - lowest), value + others * (highest - value), True)


def percentile_interval(resampled: np.ndarray) -> Interval:
    """The central 95 % of resampled statistics."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high))
