"""Keys and values of earlier prompts, so that a shared prefix is computed once.

Attention is causal: a token's keys and values depend only on the tokens before it. They are kept in
slots of one pool; a prompt finds its longest kept prefix by hashes of its blocks, then token by
token. Turns of a dialogue, candidates of a state, questions on one case's facts and consultations
of a case share prefixes; callers need not name them.
"""

from collections.abc import Sequence

import torch

BLOCK = 8


class PrefixCache:
    """A pool of token slots with an index from token blocks to slots.

    Args:
        slots: capacity in tokens. A full cache forgets everything, which is always correct.
    """

    def __init__(self, slots: int):
        self.capacity = slots
        self._keys: list[torch.Tensor] = []  # per layer [slots, kv heads, head dim]
        self._values: list[torch.Tensor] = []
        self.clear()

    def clear(self) -> None:
        """Forget all sequences."""
        self._used = 0
        self._blocks: dict[int, tuple[list[int], list[int]]] = {}

    def match(self, tokens: Sequence[int]) -> list[int]:
        """Slots of the longest kept prefix of `tokens`, the last token never included.

        The last token is left out because its logits are needed and not kept.
        """
        limit = len(tokens) - 1
        matched = 0
        kept_tokens: list[int] = []
        kept_slots: list[int] = []
        for stop, name in _block_names(tokens[:limit]):
            if name not in self._blocks:
                break
            candidate_tokens, candidate_slots = self._blocks[name]
            if candidate_tokens[matched:stop] != list(tokens[matched:stop]):
                break
            matched, kept_tokens, kept_slots = stop, candidate_tokens, candidate_slots
        while matched < min(limit, len(kept_tokens)) and kept_tokens[matched] == tokens[matched]:
            matched += 1
        return kept_slots[:matched]

    def first_missing_block(self, tokens: Sequence[int]) -> int | None:
        """Name of the first whole block of `tokens` that is not kept; None if all are."""
        for _, name in _block_names(tokens[: len(tokens) - 1]):
            if name not in self._blocks:
                return name
        return None

    def reserve(self, count: int) -> list[int] | None:
        """Take `count` free slots, forgetting everything first if the pool is full.

        Returns:
            The slots; None, and none are taken, if they can never fit.
        """
        if count > self.capacity:
            return None
        if self._used + count > self.capacity:
            self.clear()
        self._used += count
        return list(range(self._used - count, self._used))

    def keep(self, tokens: list[int], slots: list[int]) -> None:
        """Add a sequence to the index. Its slots must have been written."""
        for _, name in _block_names(tokens):
            self._blocks.setdefault(name, (tokens, slots))

    def write(self, slots: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor]):
        """Store per layer [n, kv heads, head dim] at `slots` [n]."""
        if not self._keys:
            self._keys = [k.new_zeros(self.capacity, *k.shape[1:]) for k in keys]
            self._values = [v.new_zeros(self.capacity, *v.shape[1:]) for v in values]
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            self._keys[layer][slots] = key
            self._values[layer][slots] = value

    def read(self, slots: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values [rows, kv heads, columns, head dim] per layer; slots [rows, columns]."""
        return [
            (k[slots].transpose(1, 2).contiguous(), v[slots].transpose(1, 2).contiguous())
            for k, v in zip(self._keys, self._values, strict=True)
        ]


def _block_names(tokens: Sequence[int]):
    """(stop, name) of each whole block; a name stands for all tokens up to `stop`."""
    name = 0
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        name = hash((name, *tokens[start : start + BLOCK]))
        yield start + BLOCK, name
