"""Slopes by finite differences, for gradients that are computed in another way."""

from collections.abc import Callable, Iterable

import numpy as np


def slopes(numbers: np.ndarray, amount: Callable[[], float], step: float = 1e-5) -> np.ndarray:
    """Slope of an amount at each of the numbers, which it reads in place."""
    result = np.zeros_like(numbers)
    for place in np.ndindex(numbers.shape):
        kept, sides = numbers[place], []
        for moved in (kept + step, kept - step):
            numbers[place] = moved
            sides.append(amount())
        numbers[place] = kept
        result[place] = (sides[0] - sides[1]) / (2 * step)
    return result


def together(parts: Iterable[np.ndarray]) -> np.ndarray:
    """All numbers of a gradient's parts in one vector."""
    return np.concatenate([part.ravel() for part in parts])
