"""How well credits rank candidates whose values are known: numbers in and out.

CreditBench has the states; any other world's candidates can be judged in the same way.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

SAME = 1e-9  # values that differ by less are equal
DIGITS = 9  # and so are credits, of which a rank is taken
RESAMPLES, PERMUTATIONS, SEED = 10_000, 20_000, 20_260_101
TAILS = (2.5, 97.5)
NORMAL = 1.959964  # standard errors to either side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A mean or a correlation with its 95 % interval.

    Attributes:
        mean, low, high: NaN where nothing is known.
        count: measurements that it rests on.
    """

    mean: float
    low: float
    high: float
    count: int = 0


def ranks(values: ArrayLike) -> np.ndarray:
    """Ranks along the last axis, from 1; equal values share the mean of theirs."""
    own = np.asarray(values, float)[..., None]
    other = np.swapaxes(own, -1, -2)
    return (own > other).sum(axis=-1) + ((own == other).sum(axis=-1) + 1) / 2


def rank_correlation(credits: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Spearman's, of each row; 0 where a row's credits, or values, are all equal.

    Args:
        credits, values: float [..., K], broadcast.
    """
    both = [ranks(np.round(np.asarray(numbers, float), DIGITS)) for numbers in (credits, values)]
    own, other = (rank - rank.mean(axis=-1, keepdims=True) for rank in both)
    norms = np.sqrt((own**2).sum(axis=-1) * (other**2).sum(axis=-1))
    return (own * other).sum(axis=-1) / np.where(norms > 0, norms, 1.0)


def regret(credits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Value of a row's best candidate less that of its favourite, in points; equals share it."""
    favourite = credits >= credits.max(axis=-1, keepdims=True) - SAME
    chosen = (favourite * values).sum(axis=-1) / favourite.sum(axis=-1)
    return 100 * (values.max(axis=-1) - chosen)


def differing(values: np.ndarray) -> np.ndarray:
    """Whether the candidates of a row differ in value: bool [rows] of float [rows, K]."""
    return np.ptp(values, axis=-1) > SAME


def over_clusters(measured: ArrayLike, clusters: ArrayLike) -> Estimate:
    """The mean of measurements within each cluster, then over clusters, which are resampled.

    Args:
        measured: float [n].
        clusters: [n], such as the case of each state; within one nothing is independent.
    """
    measured = np.asarray(measured, float)
    if not len(measured):
        return Estimate(np.nan, np.nan, np.nan)
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    means = np.bincount(place, measured) / np.bincount(place)
    drawn = np.random.default_rng(SEED).integers(len(means), size=(RESAMPLES, len(means)))
    low, high = np.percentile(means[drawn].mean(axis=1), TAILS)
    return Estimate(float(means.mean()), float(low), float(high), len(measured))


def luck(credits: np.ndarray) -> float | None:
    """Share of a credit's variance, in %, between draws of what follows the same questions.

    Args:
        credits: float [draws, states, K]; None is returned where they do not vary.
    """
    total = credits.var(ddof=1)
    return None if total < SAME else float(100 * credits.var(axis=0, ddof=1).mean() / total)


def apart(idle: np.ndarray) -> np.ndarray:
    """Candidates that can tell nothing where another one can: bool [states, K] of the same."""
    return idle & ~idle.all(axis=1, keepdims=True)


def idle_share(credits: np.ndarray, idle: np.ndarray) -> float:
    """Of the candidates `apart`, the share above their state's mean, in %; ties half.

    Args:
        credits: float [draws, states, K].
        idle: bool [states, K], candidates that can tell nothing.
    """
    above = (credits - credits.mean(axis=-1, keepdims=True))[:, apart(idle)]
    return float(100 * ((above > SAME) + 0.5 * (np.abs(above) <= SAME)).mean())


def association(first: ArrayLike, second: ArrayLike) -> tuple[Estimate, float]:
    """Spearman's correlation of two lists and its p, two-sided, by permutation of one of them."""
    first, second = np.asarray(first, float), np.asarray(second, float)
    own = float(rank_correlation(first, second))
    rng = np.random.default_rng(SEED)
    shuffled = rng.permuted(np.tile(second, (PERMUTATIONS, 1)), axis=1)
    as_far = np.abs(rank_correlation(first, shuffled)) >= abs(own) - SAME
    return with_interval(own, len(first)), float((as_far.sum() + 1) / (PERMUTATIONS + 1))


def with_interval(correlation: float, count: int) -> Estimate:
    """Spearman's correlation of so many pairs with the 95 % interval of Bonett and Wright.

    The interval (2000, doi:10.1007/BF02294183) is NaN for fewer than four pairs, and for a perfect
    order, of which it knows nothing.
    """
    if count < 4 or abs(correlation) > 1 - SAME:
        return Estimate(correlation, np.nan, np.nan, count)
    wide = NORMAL * np.sqrt((1 + correlation**2 / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(correlation) + np.array([-wide, wide]))
    return Estimate(correlation, float(low), float(high), count)
