"""Discordant counts behind a published gain, and per-case outcomes rebuilt from them.

A gain over n cases fixes the difference of the two discordant counts, and an exact McNemar p at
that difference falls as the counts shrink, so gain, n and p together fix both counts. Only p = 1
with a gain of 0 leaves their size open; there the published interval decides.
"""

from functools import cache

import numpy as np

from analysis.published import PairedRow
from analysis.statistics.bootstrap import NORMAL
from analysis.statistics.paired import mcnemar


def printed(value: float, like: str) -> str:
    """`value` with as many decimals as the text `like` has."""
    return f"{value:.{len(like.partition('.')[2])}f}"


def difference(row: PairedRow, cases: int) -> int:
    """Minuend's minus subtrahend's correct cases, from a gain printed to 0.01 points.

    Raises:
        ValueError: no whole number of cases gives the printed gain.
    """
    count = round(row.gain * cases / 100)
    if abs(100 * count / cases - row.gain) > 0.005 + 1e-9:
        raise ValueError(f"no whole number of {cases} cases gives a gain of {row.gain} points")
    return count


@cache
def discordant_counts(row: PairedRow, cases: int) -> tuple[tuple[int, int], ...]:
    """All (only minuend, only subtrahend) that print as the row's gain and p."""
    gap = difference(row, cases)
    found = []
    for discordant in range(max(abs(gap), 1), cases + 1):
        if (discordant - gap) % 2:
            continue
        only_minuend = (discordant + gap) // 2
        counts = (only_minuend, discordant - only_minuend)
        if printed(mcnemar(*counts), row.p) == row.p:
            found.append(counts)
    return tuple(found)


def recovered_counts(row: PairedRow, cases: int) -> tuple[int, int]:
    """The discordant counts; among several with the same p those that fit the interval best.

    The width used is that of a normal interval, 2 z sqrt(b + c - (b - c)^2 / n) / n.
    """
    width = (row.high - row.low) / 100

    def misfit(counts: tuple[int, int]) -> float:
        b, c = counts
        return abs(2 * NORMAL * (b + c - (b - c) ** 2 / cases) ** 0.5 / cases - width)

    return min(discordant_counts(row, cases), key=misfit)


def rebuilt_outcomes(counts: tuple[int, int], cases: int) -> tuple[np.ndarray, np.ndarray]:
    """Two (cases,) boolean arrays with these discordant counts; concordant cases are correct.

    Gain, paired interval and McNemar p do not depend on how the concordant cases are split.
    """
    only_minuend, only_subtrahend = counts
    minuend, subtrahend = np.ones(cases, dtype=bool), np.ones(cases, dtype=bool)
    subtrahend[:only_minuend] = False
    minuend[only_minuend : only_minuend + only_subtrahend] = False
    return minuend, subtrahend
