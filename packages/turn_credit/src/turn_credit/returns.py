"""What several credits of turns do: return to go, and z by the population's deviation."""

import numpy as np

from turn_credit.arithmetic import EPSILON


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
