"""Single checks: a relation agrees if some values that round to the printed ones satisfy it."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.estimates import Estimate

HALF = 0.5 + 1e-9  # of the last printed digit


@dataclass(frozen=True)
class Check:
    """A relation among the numbers of a table, as a sentence with both sides, and its outcome."""

    table: str
    relation: str
    agrees: bool


def rounds(table: str, relation: str, shown: float, exact: float, digits: int) -> Check:
    """An exactly known value rounds to what is printed."""
    text = f"{relation}: {exact:.{digits + 1}f}, printed {shown:.{digits}f}"
    return Check(table, text, abs(shown - exact) <= HALF * 10.0**-digits)


def derived(
    table: str,
    relation: str,
    function: Callable[..., float],
    inputs: Sequence[float],
    result: float,
    digits: tuple[int, int],
) -> Check:
    """A result that is monotone in inputs; digits: decimals of the inputs and of the result."""
    slack, edge = (HALF * 10.0**-count for count in digits)
    corners = itertools.product(*((value - slack, value + slack) for value in inputs))
    values = [function(*corner) for corner in corners]
    text = f"{relation}: {function(*inputs):.{digits[1] + 1}f}, printed {result:.{digits[1]}f}"
    return Check(table, text, min(values) <= result + edge and max(values) >= result - edge)


def whole(table: str, relation: str, percent: float, outcomes: int) -> Check:
    """A share of so many outcomes is a whole number of them."""
    exact = 100 * round(percent * outcomes / 100) / outcomes
    return rounds(table, f"{relation}: whole number of {outcomes:,}", percent, exact, 2)


def three_runs(
    table: str, relation: str, estimate: Estimate, cases: int, one: int | None = None
) -> Check:
    """Some three whole numbers of cases have the printed mean and sample SD."""
    text = f"{relation}: {estimate.mean:.2f} ± {estimate.sd:.2f} from three whole numbers"
    return Check(table, text, bool(three_counts(estimate, cases, one)))


def three_counts(estimate: Estimate, cases: int, one: int | None = None) -> list[tuple[int, ...]]:
    """All sorted triples of counts of correct cases with the printed mean and sample SD.

    Args:
        estimate: mean and SD over three runs, in percent, printed to 0.01.
        cases: number of cases of the benchmark.
        one: a count that one of the three must be.
    """
    low, high = (3 * (estimate.mean + side * HALF * 0.01) * cases / 100 for side in (-1, 1))
    reach = int(2 * (estimate.sd + 0.01) * cases / 100) + 2
    found = set()
    for total in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        window = range(total // 3 - reach, total // 3 + reach + 1)
        for first in window if one is None else [one]:
            for second in window:
                counts = (first, second, total - first - second)
                sd = 100 / cases * float(np.sqrt(np.square(counts).sum() / 2 - total**2 / 6))
                if abs(sd - estimate.sd) <= HALF * 0.01:
                    found.add(tuple(sorted(counts)))
    return sorted(found)


def one_of_three(table: str, relation: str, estimate: Estimate, one: float) -> Check:
    """Three numbers with this mean and SD can include `one`: |one - mean| <= 2 SD / sqrt(3)."""
    slack = HALF * 0.001
    reach = 2 / 3**0.5 * (estimate.sd + slack) + 2 * slack
    text = f"{relation}: {one:.3f} as one of three runs of {estimate.mean:.3f} ± {estimate.sd:.3f}"
    return Check(table, text, abs(one - estimate.mean) <= reach)


def mean(*values: float) -> float:
    return sum(values) / len(values)


def minus(first: float, second: float) -> float:
    return first - second


def reduction(before: float, after: float) -> float:
    """Reduction in percent."""
    return 100 * (1 - after / before)
