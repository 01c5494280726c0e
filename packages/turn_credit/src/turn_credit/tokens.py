"""Credits on tokens, for trainers that take one advantage per token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from turn_credit.tensors import as_tensor, first_tensor, plain

Span = tuple[int, int, int]  # row of the batch, first token, one after the last


@dataclass(frozen=True)
class Term:
    """One term of the objective: spans of tokens, each with its credit.

    Attributes:
        spans: tokens that the term covers; none twice.
        credits: float [spans], or rows of them, as a credit returns them.
        weight: the term's, such as beta for questions.
    """

    spans: Sequence[Span]
    credits: Any
    weight: float = 1.0

    @property
    def tokens(self) -> int:
        """Number of tokens that it covers, N_T or N_Q."""
        return sum(stop - start for _, start, stop in self.spans)

    @property
    def values(self) -> np.ndarray:
        """float64 [spans], the credits in one row.

        Raises:
            ValueError: there are more or fewer than spans, or one is no number.
        """
        credits = plain(self.credits)
        rows = [np.asarray(row, np.float64) for row in credits]
        values = np.concatenate(rows) if any(row.ndim for row in rows) else np.array(rows, float)
        if len(values) != len(self.spans):
            raise ValueError(f"{len(values)} credits for {len(self.spans)} spans")
        if not np.isfinite(values).all():
            place = int(np.flatnonzero(~np.isfinite(values))[0])
            row, start, stop = self.spans[place]
            raise ValueError(
                f"the credit of tokens {start} to {stop} of row {row} is {values[place]}; leave "
                "the span out, or credit it with 0"
            )
        return values


def turn_spans(mask: Iterable[Any], turns: Sequence[int] | None = None) -> list[Span]:
    """The spans of all turns of a batch, row by row, from a loss mask.

    Args:
        mask: int [tokens] of each row, 0 where the actor wrote nothing. A turn is a run of equal
            numbers: a mask of 0 and 1 will do where something stands between any two turns; where
            turns touch, number them.
        turns: int [rows], how many turns each row must have, such as `Group.lengths`.

    Raises:
        ValueError: a row has another number of turns.
    """
    spans: list[Span] = []
    counts = []
    for row, line in enumerate(plain(mask)):
        values = np.asarray(plain(line), np.int64)
        edges = np.flatnonzero(np.diff(values, prepend=0, append=0))
        own = [(row, start, stop) for start, stop in pairwise(edges.tolist()) if values[start]]
        spans += own
        counts.append(len(own))
    if turns is None:
        return spans
    if len(counts) != len(turns):
        raise ValueError(f"the mask has {len(counts)} rows, and `turns` {len(turns)}")
    for row, (count, wanted) in enumerate(zip(counts, turns, strict=True)):
        if count != wanted:
            raise ValueError(
                f"row {row} of the mask has {count} runs of the actor's tokens for {wanted} turns; "
                "number the turns in the mask where they touch, and leave out what was cut off"
            )
    return spans


def flat_advantages(
    lengths: Sequence[int], terms: Sequence[Term], tokens: int | None = None
) -> Any:
    """`token_advantages` without padding: the rows one after the other.

    Args:
        lengths: int [rows], tokens of each row.
        terms, tokens: as of `token_advantages`.

    Returns:
        float64 [sum of lengths], or a tensor: the first row's tokens, then the second's, ...

    Raises:
        ValueError: see `token_advantages`.
    """
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=int)])
    advantages, covered = np.zeros(starts[-1]), np.zeros(starts[-1], bool)
    for term in terms:
        count, own = term.tokens, np.zeros(starts[-1], bool)
        for (row, start, stop), value in zip(term.spans, term.values, strict=True):
            _inside(row, start, stop, lengths)
            place = slice(starts[row] + start, starts[row] + stop)
            if own[place].any():
                raise ValueError(
                    f"tokens {start} to {stop} of row {row} are in a term twice; give each token "
                    "one span of a term"
                )
            if stop > start:
                advantages[place] += term.weight * value / count
                own[place] = True
        covered |= own
    advantages = advantages * (covered.sum() if tokens is None else tokens)
    tensor = first_tensor([term.credits for term in terms])
    return advantages if tensor is None else as_tensor(advantages, tensor)


def token_advantages(
    shape: tuple[int, int], terms: Sequence[Term], tokens: int | None = None
) -> Any:
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
        float64 `shape`; 0 where no term is. Where credits are a tensor, a tensor on its device.

    Raises:
        ValueError: a span leaves the batch or meets another of its term, credits are more or fewer
            than spans, or one is no number.
    """
    return flat_advantages([shape[1]] * shape[0], terms, tokens).reshape(shape)


def _inside(row: int, start: int, stop: int, lengths: Sequence[int]) -> None:
    if not 0 <= row < len(lengths):
        raise ValueError(f"span {(row, start, stop)} leaves a batch of {len(lengths)} rows")
    if not 0 <= start <= stop <= lengths[row]:
        raise ValueError(
            f"span {(row, start, stop)} leaves a batch whose row {row} has {lengths[row]} tokens"
        )
