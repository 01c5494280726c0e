"""Tokens that go through an engine are counted: of prompts once, of samples each."""

import pytest
from helpers import Alone
from scripted_engine import ScriptedEngine

from pcqc.engines.base import Failure, Request, Sampling
from pcqc.engines.metered import MeteredEngine
from pcqc.engines.sharded import ShardedEngine

SAMPLING = Sampling(1.0, 1.0, 4, stop=(7,))
# Prompts of 2, 3 and 1 tokens with 2, 1 and 3 samples.
REQUESTS = [Request([1, 2], (1, 2)), Request([1, 2, 3], (3,)), Request([4], (2, 2, 9))]


def counting() -> MeteredEngine:
    """A sample has as many tokens as its stream says, up to the limit."""
    return MeteredEngine(ScriptedEngine(lambda prompt, stream: [5] * stream))


def test_prompts_count_once_and_every_sample_counts():
    """2 + 3 + 1 tokens are read, 1 + 2, 3 and 2 + 2 + 4 sampled: the last stops at the limit."""
    engine = counting()
    engine.generate(REQUESTS, SAMPLING)
    assert engine.take_counts() == {"read": 6, "sampled": 14}
    assert engine.take_counts() == {"read": 0, "sampled": 0}


def test_what_failed_has_no_tokens(monkeypatch):
    engine = counting()
    failed = [[Failure("timeout", "no answer")]]
    monkeypatch.setattr(engine.engine, "generate", lambda requests, sampling: failed)
    assert engine.generate(REQUESTS[:1], SAMPLING) == failed
    assert engine.take_counts() == {"read": 2, "sampled": 0}


@pytest.mark.parametrize("count", [2, 3])
def test_the_counts_of_all_processes_add_up(count):
    counts = []
    for rank in range(count):
        engine = counting()
        ShardedEngine(engine, Alone(rank, count)).generate(REQUESTS, SAMPLING)
        counts.append(engine.take_counts())
    assert sum(part["read"] for part in counts) == 6
    assert sum(part["sampled"] for part in counts) == 14
