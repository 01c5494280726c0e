"""Means and standard deviations over independent runs; rank correlations; the error of a share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, in the unit of its values; `sd` is the sample SD, None for one run."""

    mean: float
    sd: float | None
    runs: int

    @property
    def standard_error(self) -> float | None:
        """SD over runs divided by the root of their number; None for one run."""
        return None if self.sd is None else self.sd / self.runs**0.5


def over_runs(values: Sequence[float]) -> Estimate:
    """Mean and sample standard deviation over independent runs; values: (runs,)."""
    values = np.asarray(values, dtype=float)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Estimate(float(values.mean()), sd, len(values))


def average_over_benchmarks(by_benchmark: Sequence[Sequence[float]]) -> Estimate:
    """Average benchmarks within each run first, then mean and SD over runs (app:benchmark_results).

    Args:
        by_benchmark: (benchmarks, runs), the same runs in the same order for each benchmark.
    """
    return over_runs(np.asarray(by_benchmark, dtype=float).mean(axis=0))


def binomial_error(percent: float, cases: int) -> float:
    """Standard error of a share of independent cases, in points."""
    return (percent * (100 - percent) / cases) ** 0.5


def rank_correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each pair of rows; NaN where a row's values are all equal.

    Args:
        first, second: float [..., n].

    Returns:
        float [...].
    """
    ranks = [rankdata(values, axis=-1) for values in (first, second)]
    own, other = (rank - rank.mean(axis=-1, keepdims=True) for rank in ranks)
    norms = np.sqrt((own**2).sum(axis=-1)) * np.sqrt((other**2).sum(axis=-1))
    return (own * other).sum(axis=-1) / np.where(norms > 0, norms, np.nan)
