"""What several credits of turns do: return to go, comparisons at a turn, the population's z."""

from collections.abc import Callable

import numpy as np

from turn_credit.arithmetic import EPSILON
from turn_credit.group import Ragged


def to_go(rewards: np.ndarray, discount: float = 1.0) -> np.ndarray:
    """sum_{k >= t} discount^(k-t) r_k of every turn t."""
    returns, total = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        total = rewards[t] + discount * total
        returns[t] = total
    return returns


def population_z(values: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """(x - mean) / (sd + 1e-6) with the population's deviation; zeros for fewer than two values.

    Args:
        values: float [n].
        floor: added to the variance.
    """
    if len(values) < 2:
        return np.zeros_like(values)
    return (values - values.mean()) / (np.sqrt(values.var() + floor) + EPSILON)


def at_each_turn(rows: Ragged, compare: Callable[[np.ndarray], np.ndarray]) -> Ragged:
    """Replace what each consultation has at a turn by a comparison among those that have the turn.

    Args:
        rows: float of each consultation, one entry a turn; they are overwritten.
        compare: float [consultations that have the turn] -> as many.
    """
    for t in range(max(map(len, rows), default=0)):
        longer = [row for row in rows if len(row) > t]
        for row, value in zip(longer, compare(np.array([row[t] for row in longer])), strict=True):
            row[t] = value
    return rows
