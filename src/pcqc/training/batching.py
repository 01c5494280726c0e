"""Micro-batches: sequences of like length, padded together, within a budget of tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask

from pcqc.training.scoring_head import with_scoring_head
from pcqc.training.tree_attention import take_trees


class HasTokens(Protocol):
    @property
    def tokens(self) -> list[int]: ...


class HasSelected(HasTokens, Protocol):
    """Token ids of which some are selected."""

    @property
    def selected(self) -> np.ndarray:
        """bool [tokens]."""


T = TypeVar("T", bound=HasTokens)


def micro_batches(
    sequences: Sequence[T], token_budget: int, columns: Callable[[int], int] = int
) -> Iterator[list[T]]:
    """Group sequences by length so that rows x longest row stays within the budget.

    A batch also ends where the next sequence is more than 1.5 times as long as its first: padding
    would cost more than a fuller batch saves. A sequence longer than the budget makes a batch of
    its own. The order depends on the sequences alone.

    Args:
        sequences: to be grouped.
        token_budget: most tokens of a batch, padding included.
        columns: length of a sequence -> columns that it is padded to at least.
    """
    batch: list[T] = []
    for sequence in sorted(sequences, key=lambda s: len(s.tokens)):
        length = len(sequence.tokens)
        full = (len(batch) + 1) * columns(length) > token_budget
        if batch and (full or length > 1.5 * len(batch[0].tokens)):
            yield batch
            batch = []
        batch.append(sequence)
    if batch:
        yield batch


@dataclass
class Padded:
    """Sequences side by side.

    Attributes:
        ids: int64 [rows, columns], padded on the right with 0.
        mask: bool [rows, 1, columns, columns] or a block mask of that shape, which columns (the
            last axis) each column sees; None where it sees all before it: causal attention never
            reaches padding on the right.
        rows, columns: int64 [selected], the places of the tokens whose probability is wanted.
        parents: int64 [selected], the column of the token before each of these.
        positions: int64 [rows, columns], or None where they count from 0 along the row.
    """

    ids: torch.Tensor
    mask: torch.Tensor | BlockMask | None
    rows: torch.Tensor
    columns: torch.Tensor
    parents: torch.Tensor
    positions: torch.Tensor | None = None

    def attention(self, dtype: torch.dtype) -> torch.Tensor | BlockMask | None:
        """What is added to the scores of attention, or its block mask; None is causal attention.

        SDPA would convert a boolean mask in every layer; it is converted once, here.
        """
        if not isinstance(self.mask, torch.Tensor):
            return self.mask
        return torch.zeros_like(self.mask, dtype=dtype).masked_fill_(~self.mask, -torch.inf)


def pad(sequences: Sequence[HasTokens], selected: Sequence[np.ndarray], device) -> Padded:
    """Pad sequences; `selected` marks per sequence (bool [tokens]) the tokens to be scored."""
    width = max(len(s.tokens) for s in sequences)
    ids = np.zeros((len(sequences), width), np.int64)
    chosen = np.zeros_like(ids, dtype=bool)
    for row, (sequence, wanted) in enumerate(zip(sequences, selected, strict=True)):
        ids[row, : len(sequence.tokens)] = sequence.tokens
        chosen[row, : len(wanted)] = wanted
    rows, columns = np.nonzero(chosen)
    arrays = (ids, rows, columns, columns - 1)
    tensor_ids, *places = (torch.from_numpy(array).to(device) for array in arrays)
    return Padded(tensor_ids, None, *places)


@dataclass(frozen=True)
class SelectedTokens:
    """Tokens of which some are selected.

    Attributes:
        tokens: ids.
        selected: bool [tokens].
    """

    tokens: list[int]
    selected: np.ndarray


def hidden_states(body, padded: Padded) -> torch.Tensor:
    """Last hidden states [rows, columns, width] of a model without its output layer."""
    attention = padded.attention(body.dtype)
    if isinstance(attention, BlockMask):
        take_trees(body)
    return body(
        input_ids=padded.ids,
        attention_mask=attention,
        position_ids=padded.positions,
        use_cache=False,
    ).last_hidden_state


def take_selected(arrays: Sequence[np.ndarray], selected: Sequence[np.ndarray]) -> np.ndarray:
    """The selected entries of each array, one array after another; float64 [all selected].

    Args:
        arrays: numbers of each sequence; there may be none.
        selected: bool, as long as each.
    """
    parts = [array[chosen] for array, chosen in zip(arrays, selected, strict=True)]
    return np.concatenate([np.empty(0), *parts])


class TokenModel(torch.nn.Module):
    """A causal language model seen from the learner: a micro-batch in, log-probabilities out."""

    def __init__(self, model: torch.nn.Module, float32_head: bool = False):
        super().__init__()
        self.model = with_scoring_head(model, float32_head)

    def forward(self, padded: Padded) -> torch.Tensor:
        """Log-probabilities [selected] of the selected tokens, each given the tokens before it.

        The output layer runs on the selected places alone: logits would take most of the memory.
        """
        model: Any = self.model
        hidden = hidden_states(model.model, padded)[padded.rows, padded.parents]
        return model.lm_head(hidden, padded.ids[padded.rows, padded.columns])
