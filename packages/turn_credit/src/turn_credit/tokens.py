"""Credits on tokens, for trainers that take one advantage per token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

Span = tuple[int, int, int]  # row of the batch, first token, one after the last


@dataclass(frozen=True)
class Term:
    """One term of the objective: spans of tokens, each with its credit.

    Attributes:
        spans: tokens that the term covers; none twice.
        credits: float [spans].
        weight: of the term, such as beta for questions.
    """

    spans: Sequence[Span]
    credits: ArrayLike
    weight: float = 1.0

    @property
    def tokens(self) -> int:
        """Number of tokens that it covers, N_T or N_Q."""
        return sum(stop - start for _, start, stop in self.spans)


def token_advantages(
    shape: tuple[int, int], terms: Sequence[Term], tokens: int | None = None
) -> np.ndarray:
    """Advantages under which a mean over all tokens is the sum of the terms' own means.

    Each term of eq:pcqc_objective is a mean over its own tokens; a trainer divides the whole loss
    by one number N. So a token of a term gets weight * credit * N / N_term, and a token of several
    terms the sum. The gradient is then exact at ratio 1, as in a single step on fresh samples. In
    later steps the terms of a shared token are clipped together.

    Args:
        shape: rows and tokens of the batch.
        terms: such as all actor tokens with A_T, and question tokens with A_Q and beta.
        tokens: N, by which the trainer divides; by default the tokens that any term covers.

    Returns:
        float64 `shape`; 0 where no term is.

    Raises:
        ValueError: a span that leaves the batch, or credits of another number.
    """
    advantages, covered = np.zeros(shape), np.zeros(shape, bool)
    for term in terms:
        credits = np.asarray(term.credits, np.float64)
        if len(credits) != len(term.spans):
            raise ValueError(f"{len(credits)} credits for {len(term.spans)} spans")
        count = term.tokens
        for (row, start, stop), value in zip(term.spans, credits, strict=True):
            if not (0 <= row < shape[0] and 0 <= start <= stop <= shape[1]):
                raise ValueError(f"span {(row, start, stop)} leaves a batch of shape {shape}")
            advantages[row, start:stop] += term.weight * value / count
            covered[row, start:stop] = True
    return advantages * (covered.sum() if tokens is None else tokens)
