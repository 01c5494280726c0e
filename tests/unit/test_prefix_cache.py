"""The cache gives back what was kept, and never what was not."""

import torch

from pcqc.engines.prefix_cache import BLOCK, PrefixCache


def filled(capacity: int, *sequences: list[int]) -> PrefixCache:
    """A cache that holds the sequences; the 'key' of a slot is its token's position."""
    cache = PrefixCache(capacity)
    for tokens in sequences:
        slots = cache.reserve(len(tokens))
        values = torch.arange(len(tokens), dtype=torch.float32).reshape(-1, 1, 1)
        cache.write(torch.tensor(slots), [values], [values + 100])
        cache.keep(tokens, slots)
    return cache


LONG = list(range(40))


def test_the_longest_kept_prefix_is_found_but_for_the_last_token():
    cache = filled(100, LONG)
    assert cache.match(LONG) == list(range(39))
    assert cache.match([*LONG, 7, 7]) == list(range(40))
    assert cache.match([*LONG[:21], 99, 99]) == list(range(21))
    assert cache.match(LONG[:17]) == list(range(16))


def test_a_prefix_shorter_than_a_block_is_not_looked_for():
    cache = filled(100, LONG)
    assert list(cache.match(LONG[:BLOCK])) == []
    assert list(cache.match([99, *LONG])) == []
    assert list(cache.match([])) == []


def test_the_first_missing_block_is_shared_by_prompts_that_share_it():
    cache = filled(100, LONG[:16])
    a, b = [*LONG[:24], 1, 1], [*LONG[:24], 2, 2]
    assert cache.first_missing_block(a) == cache.first_missing_block(b) is not None
    assert cache.first_missing_block(LONG[:17]) is None
