"""Means and standard deviations over independent runs; rank correlations; the error of a share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from analysis.statistics.effect import Effect


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


def effect_over_runs(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], reach: float = np.inf
) -> Effect | None:
    """Difference of two methods' means from one value of each run, with its error over runs.

    The degrees of freedom are those of Welch's t test.

    Args:
        first, second: [base models][runs] of each method; base models count alike.
        reach: how far two runs' values can lie apart.

    Returns:
        None where a method has one run on some base model.
    """
    if (fewest := min(map(len, [*first, *second]))) < 2:
        return None
    share = 1 / len(first)
    parts = [
        (share**2 * float(np.var(runs, ddof=1)) / len(runs), len(runs) - 1)
        for runs in [*first, *second]
    ]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / spread if spread else float(sum(f for _, f in parts))
    pairs = list(zip(first, second, strict=True))
    difference = float(np.mean([np.mean(a) - np.mean(b) for a, b in pairs]))
    by_base: dict[str, Effect] = {}
    for number, (a, b) in enumerate(pairs, 1) if len(pairs) > 1 else ():
        by_base[f"base model {number}"] = effect_over_runs([a], [b], reach)
    return Effect(difference, variance**0.5, freedom, "run", by_base, outcomes=fewest, reach=reach)


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
