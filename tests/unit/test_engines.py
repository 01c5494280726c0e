"""Whatever the batch, the cache and the history of calls: the tokens of a plain forward pass."""

import numpy as np
import pytest
import torch
from engine_checks import (
    CHECKS,
    SAMPLING,
    STOP,
    flat,
    make_model,
    prompts,
    reads_log_probabilities,
    requests,
)
from helpers import ROUNDING, plain_logprobs, tiny_model

from pcqc.engines.base import Request, Sampling
from pcqc.engines.sampling import draw
from pcqc.engines.transformers import TransformersEngine
from pcqc.system.seeds import stream


def plain_generate(model, wanted: list[Request], sampling: Sampling):
    """One token at a time, each from a forward pass over everything before it."""
    completions = []
    for request in wanted:
        for name in request.streams:
            tokens: list[int] = []
            logprobs: list[float] = []
            while len(tokens) < sampling.max_tokens and STOP not in tokens:
                with torch.no_grad():
                    ids = torch.tensor([[*request.prompt, *tokens]])
                    logits = model(input_ids=ids, use_cache=False).logits[:, -1]
                step = len(tokens)
                token, chance = draw(logits, np.array([name], np.uint64), step, sampling)
                tokens.append(int(token))
                logprobs.append(float(chance))
            completions.append((tokens, logprobs))
    return completions


@pytest.fixture(scope="module")
def expected(model):
    return plain_generate(model, requests(), SAMPLING)


@pytest.mark.parametrize(
    ("batch_size", "cache_tokens"), [(64, 0), (1, 30), (3, 30), (64, 100), (1, 10000), (64, 10000)]
)
def test_tokens_are_those_of_a_plain_forward_pass(model, expected, batch_size, cache_tokens):
    engine = TransformersEngine(model, batch_size=batch_size, cache_tokens=cache_tokens)
    for _ in range(2):  # the second time the prompts are in the cache
        completions = flat(engine.generate(requests(), SAMPLING))
        assert [c.tokens for c in completions] == [tokens for tokens, _ in expected]
        for completion, (_, logprobs) in zip(completions, expected, strict=True):
            assert completion.logprobs == pytest.approx(logprobs, abs=ROUNDING)
    engine.reset_cache()
    assert [c.tokens for c in flat(engine.generate(requests(), SAMPLING))] == [
        tokens for tokens, _ in expected
    ]


def test_a_dialogue_keeps_its_keys_across_turns(model):
    """Each turn's state extends the last; only what is new is computed."""
    engine = TransformersEngine(model)
    state = prompts()[1]
    computed = []
    forward = model.model.forward

    def counting(*args, **kwargs):
        computed.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    model.model.forward = counting
    try:
        for turn in range(3):
            request = Request(list(state), (stream(2, turn),))
            ((completion,),) = engine.generate([request], SAMPLING)
            ((tokens, logprobs),) = plain_generate(tiny_model(), [request], SAMPLING)
            assert completion.tokens == tokens
            assert completion.logprobs == pytest.approx(logprobs, abs=ROUNDING)
            state = [*state, *completion.tokens, *range(30, 40)]
            first, computed = computed[0], []
            assert first <= (len(request.prompt) if turn == 0 else SAMPLING.max_tokens + 11)
    finally:
        model.model.forward = forward


@pytest.mark.parametrize("cache_tokens", [0, 50, 10000])
def test_next_logprobs_are_those_of_a_plain_forward_pass(model, cache_tokens):
    engine = TransformersEngine(model, batch_size=4, cache_tokens=cache_tokens)
    for _ in range(2):  # the second time the prompts are in the cache
        reads_log_probabilities(engine, model)


def test_all_choices_of_a_prompt_are_read_in_one_pass(model, monkeypatch):
    engine = TransformersEngine(model)
    rows = []
    forward = model.lm_head.forward
    monkeypatch.setattr(model.lm_head, "forward", lambda h: rows.append(len(h)) or forward(h))
    alone = [[i, *range(20, 30)] for i in range(5)]
    engine.next_logprobs(alone, [[1, 2, 3, 4]] * 5)
    assert rows == [5]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_does_what_every_engine_must(check):
    check(TransformersEngine(make_model(0, tied=False)), make_model(0, tied=False))


def test_a_shared_module_serves_the_learner_and_the_engine():
    model = tiny_model(3)
    engine = TransformersEngine(model)
    (before,) = engine.next_logprobs([prompts()[0]], [[4, 5]])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    engine.reset_cache()
    (after,) = engine.next_logprobs([prompts()[0]], [[4, 5]])
    assert after != before
    assert after == pytest.approx(
        plain_logprobs(model, prompts()[0])[-1][[4, 5]].tolist(), abs=ROUNDING
    )
    model(input_ids=torch.tensor([prompts()[0]])).logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
