"""The paper's one way of turning values into credit: centre, threshold, divide."""

from collections.abc import Sequence

import numpy as np

THRESHOLD = 1e-4  # tau
EPSILON = 1e-6  # epsilon_norm


def standardise(values: Sequence[float]) -> np.ndarray:
    """(x - mean) / (sd + EPSILON), or zeros where sd < THRESHOLD (Eq. 4 and 5).

    Args:
        values: float [n]; their sample standard deviation divides by n - 1.

    Returns:
        float64 [n]; zeros for fewer than two values.
    """
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return np.zeros_like(values)
    deviation = values.std(ddof=1)
    if deviation < THRESHOLD:
        return np.zeros_like(values)
    return (values - values.mean()) / (deviation + EPSILON)
