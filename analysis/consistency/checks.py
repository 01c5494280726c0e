"""Single checks: a relation holds if some values that round to the printed ones satisfy it."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics import Estimate

HALF = 0.5 + 1e-9  # of the last printed digit


@dataclass(frozen=True)
class Check:
    """One relation: what is printed, what its inputs give, and whether the two agree."""

    table: str
    relation: str
    printed: str
    recomputed: str
    agrees: bool


def derived(
    table: str,
    relation: str,
    function: Callable[..., float],
    inputs: Sequence[float],
    result: float,
    digits: tuple[int, int],
) -> Check:
    """A result that is monotone in each of its inputs.

    Args:
        function: of the inputs, one argument each.
        digits: decimals to which the inputs, and the result, are printed.
    """
    slack = HALF * 10.0 ** -digits[0]
    corners = itertools.product(*((value - slack, value + slack) for value in inputs))
    values = [function(*corner) for corner in corners]
    edge = HALF * 10.0 ** -digits[1]
    agrees = min(values) <= result + edge and max(values) >= result - edge
    shown = f"{function(*inputs):.{digits[1] + 1}f}"
    return Check(table, relation, f"{result:.{digits[1]}f}", shown, agrees)


def equal(table: str, relation: str, printed: float, exact: float, digits: int) -> Check:
    """An exactly known value must round to what is printed."""
    agrees = abs(printed - exact) <= HALF * 10.0**-digits
    return Check(table, relation, f"{printed:.{digits}f}", f"{exact:.{digits + 1}f}", agrees)


def whole(table: str, relation: str, percent: float, outcomes: int) -> Check:
    """A share of so many outcomes must be a whole number of them."""
    count = round(percent * outcomes / 100)
    exact = 100 * count / outcomes
    agrees = abs(exact - percent) <= HALF * 0.01
    shown = f"{count:,}/{outcomes:,} = {exact:.3f}"
    return Check(table, relation, f"{percent:.2f}", shown, agrees)


def three_runs(
    table: str, relation: str, estimate: Estimate, cases: int, one_is: int | None = None
) -> Check:
    """Some three whole numbers of cases must have the printed mean and sample SD."""
    found = three_counts(estimate, cases, one_is)
    text = f"{estimate.mean:.2f} ± {estimate.sd:.2f}"
    shown = f"{len(found)} triples, such as {'/'.join(map(str, found[0]))}" if found else "none"
    return Check(table, relation, text, shown, bool(found))


def three_counts(
    estimate: Estimate, cases: int, one_is: int | None = None
) -> list[tuple[int, ...]]:
    """All sorted triples of counts of correct cases with the printed mean and sample SD.

    Args:
        estimate: mean and SD over three runs, in percent, printed to 0.01.
        cases: number of cases of the benchmark.
        one_is: a count that one of the three must be.
    """
    low, high = (3 * (estimate.mean + side * HALF * 0.01) * cases / 100 for side in (-1, 1))
    reach = int(2 * (estimate.sd + 0.01) * cases / 100) + 2
    found = set()
    for total in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        window = range(total // 3 - reach, total // 3 + reach + 1)
        for first in window if one_is is None else [one_is]:
            for second in window:
                counts = (first, second, total - first - second)
                sd = 100 / cases * float(np.sqrt(np.square(counts).sum() / 2 - total**2 / 6))
                if abs(sd - estimate.sd) <= HALF * 0.01:
                    found.add(tuple(sorted(counts)))
    return sorted(found)


def one_of_three(table: str, relation: str, estimate: Estimate, one: float, digits: int) -> Check:
    """Three numbers with this mean and SD can include `one`: |one - mean| <= 2 SD / sqrt(3)."""
    slack = HALF * 10.0**-digits
    distance = abs(one - estimate.mean)
    reach = 2 / 3**0.5 * (estimate.sd + slack) + 2 * slack
    shown = f"{distance:.{digits}f} from the mean; at most {2 / 3**0.5 * estimate.sd:.{digits}f}"
    return Check(table, relation, f"{one:.{digits}f}", shown, distance <= reach)


def mean(*values: float) -> float:
    return sum(values) / len(values)


def difference(first: float, second: float) -> float:
    return first - second


def reduction(before: float, after: float) -> float:
    """Reduction in percent."""
    return 100 * (1 - after / before)
