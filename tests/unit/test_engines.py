"""Whatever the batch, the cache and the history of calls: the tokens of a plain forward pass."""

import numpy as np
import pytest
import torch
from docs_pages import blocks
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
from helpers import ROUNDING, tiny_model

from pcqc.engines.base import Request, Sampling
from pcqc.engines.sampling import draw
from pcqc.engines.transformers import TransformersEngine
from pcqc.seeds import stream


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
        reads_log_probabilities(engine, model)
    engine.reset_cache()
    assert [c.tokens for c in flat(engine.generate(requests(), SAMPLING))] == [
        tokens for tokens, _ in expected
    ]


def test_a_dialogue_keeps_its_keys_across_turns(model, monkeypatch):
    """Each turn's state extends the last; only what is new is computed."""
    engine = TransformersEngine(model)
    state = prompts()[1]
    computed = []
    forward = model.model.forward

    def counting(*args, **kwargs):
        computed.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.model, "forward", counting)
    for turn in range(3):
        request = Request(list(state), (stream(2, turn),))
        ((completion,),) = engine.generate([request], SAMPLING)
        ((tokens, logprobs),) = plain_generate(tiny_model(), [request], SAMPLING)
        assert completion.tokens == tokens
        assert completion.logprobs == pytest.approx(logprobs, abs=ROUNDING)
        state = [*state, *completion.tokens, *range(30, 40)]
        first, computed = computed[0], []
        assert first <= (len(request.prompt) if turn == 0 else SAMPLING.max_tokens + 11)


def test_all_choices_of_a_prompt_are_read_in_one_pass(model, monkeypatch):
    engine = TransformersEngine(model)
    rows = []
    forward = model.lm_head.forward
    monkeypatch.setattr(model.lm_head, "forward", lambda h: rows.append(len(h)) or forward(h))
    alone = [[i, *range(20, 30)] for i in range(5)]
    engine.next_logprobs(alone, [[1, 2, 3, 4]] * 5)
    assert rows == [5]


def engine_of_the_page(model):
    """The engine that docs/add-an-engine.md begins with."""
    names, (whole, _) = {}, [text for page, text in blocks("python") if page == "add-an-engine.md"]
    exec(compile(whole, "add-an-engine.md", "exec"), names)
    return names["NewEngine"](model)


@pytest.mark.parametrize("make", [TransformersEngine, engine_of_the_page])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_does_what_every_engine_must(check, make):
    check(make(make_model(0, tied=False)), make_model(0, tied=False))
