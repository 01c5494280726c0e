"""The default engine: a transformers model, decoded in batches over a prefix cache."""

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicLayer

from pcqc.engines.base import Completion, Engine, Request, Sampling
from pcqc.engines.prefix_cache import PrefixCache
from pcqc.engines.sampling import draw

# How often the prompts of a call may wait for another to compute their shared prefix.
SHARING_WAVES = 3
# Prompts are scored in one batch if none has more than this many times the new tokens of another.
ALIKE = 2
# Finished rows are dropped from the batch when at most this share is unfinished.
DROP_FINISHED = 0.75


class TransformersEngine(Engine):
    """Batched decoding with a transformers causal language model.

    Args:
        model: in evaluation mode; may be the learner's own module, whose weights are then shared.
        batch_size: sequences decoded at once.
        cache_tokens: capacity of the prefix cache.
    """

    def __init__(self, model, *, batch_size: int = 256, cache_tokens: int = 262144):
        self.model = model
        self.batch_size = batch_size
        self.cache = PrefixCache(cache_tokens)
        self.device = next(model.parameters()).device

    @torch.inference_mode()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One list of completions per request, one completion per stream of it, in order."""
        rows = [(r.prompt, stream) for r in requests for stream in r.streams]
        completions: list[Completion] = []
        for start in range(0, len(rows), self.batch_size):
            completions += self._generate_batch(rows[start : start + self.batch_size], sampling)
        ordered = iter(completions)
        return [[next(ordered) for _ in r.streams] for r in requests]

    @torch.inference_mode()
    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log P(token | prompt) for each token of `choices`."""
        results = []
        for start in range(0, len(prompts), self.batch_size):
            batch = [list(p) for p in prompts[start : start + self.batch_size]]
            self._share_prefixes(batch)
            logprobs: dict[int, list[float]] = {}
            for rows in self._alike(batch):
                logits = _Batch(self, [batch[i] for i in rows]).logits
                for i, row in zip(rows, torch.log_softmax(logits.double(), -1), strict=True):
                    logprobs[i] = row[list(choices[start + i])].tolist()
            results += [logprobs[i] for i in range(len(batch))]
        return results

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy weights into the module; one shared with the learner has them already."""
        own = dict(self.model.state_dict(keep_vars=True))
        with torch.no_grad():
            for name, tensor in weights:
                if own[name] is not tensor:
                    own[name].copy_(tensor)
        self.reset_cache()

    def reset_cache(self) -> None:
        """Forget cached prefixes."""
        self.cache.clear()

    def _generate_batch(self, rows, sampling: Sampling) -> list[Completion]:
        unique = {tuple(prompt): None for prompt, _ in rows}
        prompts = [list(prompt) for prompt in unique]
        self._share_prefixes(prompts)
        batch = _Batch(self, prompts)
        batch.make_room(sampling.max_tokens)
        position = {prompt: i for i, prompt in enumerate(unique)}
        batch.select(torch.tensor([position[tuple(prompt)] for prompt, _ in rows]))
        streams = np.array([stream for _, stream in rows], np.uint64)
        return batch.decode(streams, sampling)

    def _alike(self, prompts: list[list[int]]) -> list[list[int]]:
        """Indices of the prompts, in groups with similar numbers of tokens not in the cache.

        Most prompts have few such tokens; beside a whole prompt they would be padded to its length.
        """
        fresh = [len(prompt) - len(self.cache.match(prompt)) for prompt in prompts]
        groups: list[list[int]] = []
        for i in sorted(range(len(prompts)), key=fresh.__getitem__):
            if not groups or fresh[i] > ALIKE * fresh[groups[-1][0]]:
                groups.append([])
            groups[-1].append(i)
        return groups

    def _share_prefixes(self, prompts: list[list[int]]) -> None:
        """Compute prefixes that several prompts share before the prompts themselves.

        In each wave one prompt per missing block goes first; the others then find its prefix.
        """
        for _ in range(SHARING_WAVES):
            first: dict[int, list[int]] = {}
            waiting = 0
            for prompt in prompts:
                block = self.cache.first_missing_block(prompt)
                if block is not None:
                    waiting += block in first
                    first.setdefault(block, prompt)
            # A wave costs a forward pass: worth it only if most prompts gain.
            if waiting * 2 < len(prompts):
                return
            _Batch(self, list(first.values()))


class _Batch:
    """Sequences in flight: their keys and values, and the logits of their last tokens."""

    def __init__(self, engine: TransformersEngine, prompts: list[list[int]]):
        self.engine = engine
        self.tokens = prompts
        self.slots = [engine.cache.match(prompt) for prompt in prompts]
        device, cache = engine.device, engine.cache
        cached = [len(slots) for slots in self.slots]
        fresh = [len(p) - n for p, n in zip(self.tokens, cached, strict=True)]
        past, width = max(cached), max(fresh)
        index = _pad([list(s) for s in self.slots], past).to(device)
        ids = _pad([p[n:] for p, n in zip(self.tokens, cached, strict=True)], width).to(device)
        counts = torch.tensor(cached, device=device)[:, None]
        valid_past = torch.arange(past, device=device) < counts
        valid_new = torch.arange(width, device=device) < torch.tensor(fresh, device=device)[:, None]
        empty = [(None, None)] * self.engine.model.config.num_hidden_layers
        self.layers = [_Layer(*kv) for kv in (cache.read(index) if past else empty)]
        positions = counts + torch.arange(width, device=device)
        causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        seen = valid_past[:, None, :].expand(-1, width, -1)
        mask = torch.cat([seen, causal.expand(len(fresh), -1, -1)], -1)[:, None]
        last = torch.tensor(fresh, device=device) - 1
        self.logits = self._forward(ids, positions, mask, last)
        self.valid = torch.cat([valid_past, valid_new], 1)
        self.length = counts[:, 0] + last + 1
        self._keep(fresh, past)

    def _forward(self, ids, positions, mask, last) -> torch.Tensor:
        """Logits [rows, vocabulary] of column `last` of each row; the layers grow by `ids`."""
        model = self.engine.model
        hidden = model.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=Cache(layers=cast(list, self.layers)),
            use_cache=True,
        ).last_hidden_state
        return model.lm_head(hidden[torch.arange(len(ids), device=ids.device), last])

    def _keep(self, fresh: list[int], past: int) -> None:
        """Keep the prompts' new keys and values for later calls."""
        cache = self.engine.cache
        taken = cache.reserve(sum(fresh))
        if taken is None:
            return
        rows = [i for i, n in enumerate(fresh) for _ in range(n)]
        columns = [past + j for n in fresh for j in range(n)]
        where = torch.tensor(taken), torch.tensor(rows), torch.tensor(columns)
        slot, row, column = (index.to(self.engine.device) for index in where)
        keys = [layer.keys[row, :, column] for layer in self.layers]
        values = [layer.values[row, :, column] for layer in self.layers]
        cache.write(slot, keys, values)
        start = 0
        for i, n in enumerate(fresh):
            # Slots that were cleared after the match belong to others now: do not index them.
            if taken[0] > 0 or not self.slots[i]:
                self.slots[i] = [*self.slots[i], *taken[start : start + n]]
                cache.keep(self.tokens[i], self.slots[i])
            start += n

    def make_room(self, columns: int) -> None:
        """Prepare the layers to grow by `columns` in place."""
        for layer in self.layers:
            layer.make_room(columns)

    def select(self, index: torch.Tensor) -> None:
        """Keep the rows of `index`, which may repeat or omit rows."""
        index = index.to(self.engine.device)
        self.tokens = [list(self.tokens[i]) for i in index.tolist()]
        self.slots = [self.slots[i] for i in index.tolist()]
        self.logits, self.length = self.logits[index], self.length[index]
        self.valid = self.valid[index]
        for layer in self.layers:
            layer.select(index)

    def decode(self, streams: np.ndarray, sampling: Sampling) -> list[Completion]:
        """Sample every row to a stop token or the limit, in the room that was made."""
        count = len(streams)
        tokens: list[list[int]] = [[] for _ in range(count)]
        logprobs: list[list[float]] = [[] for _ in range(count)]
        rows = np.arange(count)
        unfinished = np.ones(count, bool)
        for step in range(sampling.max_tokens):
            drawn, drawn_logprobs = draw(self.logits, streams[rows], step, sampling)
            ids, chances = drawn.cpu().numpy(), drawn_logprobs.cpu().numpy()
            for place in unfinished.nonzero()[0]:
                tokens[rows[place]].append(int(ids[place]))
                logprobs[rows[place]].append(float(chances[place]))
            unfinished &= ~np.isin(ids, sampling.stop)
            if step + 1 == sampling.max_tokens or not unfinished.any():
                break
            # Dropping finished rows copies the others: worth it only if many have finished.
            if unfinished.sum() <= DROP_FINISHED * len(unfinished):
                kept = torch.from_numpy(unfinished.nonzero()[0])
                self.select(kept)
                drawn, rows = drawn[kept.to(drawn.device)], rows[unfinished]
                unfinished = np.ones(len(rows), bool)
            self._step(drawn)
        return [Completion(t, p) for t, p in zip(tokens, logprobs, strict=True)]

    def _step(self, drawn: torch.Tensor) -> None:
        ones = self.valid.new_ones(len(drawn), 1)
        self.valid = torch.cat([self.valid, ones], 1)
        first = torch.zeros(len(drawn), dtype=torch.long, device=drawn.device)
        self.logits = self._forward(
            drawn[:, None], self.length[:, None], self.valid[:, None, None], first
        )
        self.length = self.length + 1


class _Layer(DynamicLayer):
    """One layer's keys and values [rows, kv heads, columns, head dim], with room to grow.

    Growing in place avoids a copy of all of them in each decoding step.
    """

    def __init__(self, keys: torch.Tensor | None, values: torch.Tensor | None):
        super().__init__()
        self.room = 0  # columns that fit without a copy
        if keys is not None:
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys, values

    def make_room(self, columns: int) -> None:
        """Allocate room for `columns` more of them."""
        self.room = self.keys.shape[2] + columns
        self._store = [_roomy(self.keys, self.room), _roomy(self.values, self.room)]
        self._view(self.keys.shape[2])

    def update(self, key_states, value_states, *args, **kwargs):
        """Append columns; returns all keys and values."""
        length = self.get_seq_length()
        grown = length + key_states.shape[2]
        if grown > self.room:
            return super().update(key_states, value_states, *args, **kwargs)
        self._store[0][:, :, length:grown] = key_states
        self._store[1][:, :, length:grown] = value_states
        self._view(grown)
        return self.keys, self.values

    def select(self, index: torch.Tensor) -> None:
        """Keep the rows of `index`."""
        length = self.get_seq_length()
        self._store = [store.index_select(0, index) for store in self._store]
        self._view(length)

    def _view(self, columns: int) -> None:
        self.keys, self.values = (store[:, :, :columns] for store in self._store)


def _roomy(tensor: torch.Tensor, columns: int) -> torch.Tensor:
    """A copy of [rows, heads, n, dim] in a tensor with `columns` columns."""
    roomy = tensor.new_empty(*tensor.shape[:2], columns, tensor.shape[3])
    roomy[:, :, : tensor.shape[2]] = tensor
    return roomy


def _pad(rows: list[list[int]], width: int) -> torch.Tensor:
    """Rows of different lengths as one int64 [rows, width], filled with 0 on the right."""
    padded = np.zeros((len(rows), width), np.int64)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return torch.from_numpy(padded)
