"""Policies of two tokens without a language model: ask or answer, then which question or option."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass
class Parts:
    """One array for each of a policy's three parts: its parameters, or a gradient in them.

    The parts share no parameter, so credit for questions changes questions alone.

    Attributes:
        choice: ask or answer.
        question: which question.
        answer: which option.
    """

    choice: np.ndarray
    question: np.ndarray
    answer: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.choice, self.question, self.answer))

    def zeros(self) -> "Parts":
        """Zeros of the same shapes."""
        return Parts(*(np.zeros_like(part) for part in self))

    def plus(self, weight: float, other: "Parts") -> "Parts":
        """This plus `weight` times the other."""
        pairs = zip(self, other, strict=True)
        return Parts(*(part + weight * more for part, more in pairs))

    def times(self, factor: float | np.ndarray) -> "Parts":
        """Every part times a factor."""
        return Parts(*(part * factor for part in self))
