"""Percentile bootstrap intervals over cases, as in the paper."""

from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
NORMAL = 1.959964  # half the width of a normal distribution's 95 % interval, in standard errors
SEED = 20_260_101
# Up to this many distinct rows a resample is one multinomial draw over the rows' counts.
_MOST_PATTERNS = 128
_BLOCK = 2_000_000  # indices drawn at once


@dataclass(frozen=True)
class Interval:
    """A percentile interval over cases."""

    low: float
    high: float

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


def percentile_interval(resampled: np.ndarray) -> Interval:
    """The central 95 % of resampled statistics."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high))
