"""Two methods on the same cases: gain, its bootstrap interval and McNemar's test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from pcqc.evaluation.bootstrap_intervals import (
    RESAMPLES,
    SEED,
    Interval,
    percentile_interval,
    resampled_means,
)


@dataclass(frozen=True)
class PairedComparison:
    """Two sets of predictions on the same cases; gain and interval in percentage points.

    `p` is McNemar's, None of an average over benchmarks.
    """

    cases: int
    minuend_accuracy: float
    subtrahend_accuracy: float
    gain: float
    low: float
    high: float
    only_minuend: int
    only_subtrahend: int
    p: float | None
    resamples: int = RESAMPLES
    seed: int = SEED
    resampling_unit: str = "case"

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high)


def mcnemar(only_minuend: int, only_subtrahend: int) -> float:
    """Exact two-sided McNemar p of the two discordant counts; 1 where none is discordant."""
    discordant = only_minuend + only_subtrahend
    if discordant == 0:
        return 1.0
    return float(binomtest(only_minuend, discordant, 0.5).pvalue)


def paired_comparison(
    minuend: np.ndarray, subtrahend: np.ndarray, seed: int = SEED
) -> PairedComparison:
    """Gain of one method over another at fixed checkpoints (app:paired_statistics).

    Args:
        minuend, subtrahend: (cases,) booleans, correct or not, in the same order of cases.
        seed: of the percentile bootstrap over cases.
    """
    pairs = np.column_stack([minuend, subtrahend]).astype(bool)
    first, second = pairs.T
    means = resampled_means(pairs, rng=seed)
    interval = percentile_interval(100 * (means[:, 0] - means[:, 1]))
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return PairedComparison(
        cases=len(pairs),
        minuend_accuracy=100 * float(first.mean()),
        subtrahend_accuracy=100 * float(second.mean()),
        gain=100 * (only_first - only_second) / len(pairs),
        low=interval.low,
        high=interval.high,
        only_minuend=only_first,
        only_subtrahend=only_second,
        p=mcnemar(only_first, only_second),
        seed=seed,
    )


def paired_average(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> PairedComparison:
    """The same over several benchmarks: the unweighted mean, cases resampled within each.

    Args:
        pairs: (minuend, subtrahend) of each benchmark, as in `paired_comparison`.
    """
    single = [paired_comparison(*pair) for pair in pairs]
    rng, gains = np.random.default_rng(SEED), []
    for pair in pairs:
        means = resampled_means(np.column_stack(pair).astype(bool), rng=rng)
        gains.append(100 * (means[:, 0] - means[:, 1]))
    interval = percentile_interval(np.mean(gains, axis=0))
    return PairedComparison(
        cases=sum(one.cases for one in single),
        minuend_accuracy=float(np.mean([one.minuend_accuracy for one in single])),
        subtrahend_accuracy=float(np.mean([one.subtrahend_accuracy for one in single])),
        gain=float(np.mean([one.gain for one in single])),
        low=interval.low,
        high=interval.high,
        only_minuend=sum(one.only_minuend for one in single),
        only_subtrahend=sum(one.only_subtrahend for one in single),
        p=None,
    )
