"""What every engine must do. A test of an engine runs each of CHECKS on it.

A check takes an engine and a model with the same weights, made by `make_model`. It leaves the
engine with these weights.
"""

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import ROUNDING, plain_logprobs, tiny_model
from transformers import Qwen3ForCausalLM

from pcqc.engines.base import Request, Sampling
from pcqc.seeds import stream
from pcqc_gpu.engines import vllm_start

VOCABULARY, STOP = 120, 29
SAMPLING = Sampling(temperature=1.0, top_p=0.8, max_tokens=12, stop=(STOP,))


def start_small(folder: Path, shared: bool) -> vllm_start.Starting:
    """Begin a vLLM of a tiny model, with as little of everything as it takes."""
    return vllm_start.start(
        folder,
        dtype="float32",
        batch_size=1,
        cache_tokens=128,
        tensor_parallel=1,
        sleeps=False,
        working_gib=1.0,
        float32_head=False,
        shared=shared,
    )


def make_model(seed: int, tied: bool) -> Qwen3ForCausalLM:
    """A tiny Qwen3 with the smallest heads that vLLM's kernels for the CPU take."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    sizes = {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 1024}
    weights = {"initializer_range": 0.2, "tie_word_embeddings": tied}
    return tiny_model(seed, VOCABULARY, **heads, **sizes, **weights)


def prompts(count: int = 9) -> list[list[int]]:
    """Prompts of 3 to 130 tokens, most of which begin alike for longer than a cache block."""
    rng = np.random.default_rng(0)
    shared = rng.integers(5, VOCABULARY, 70).tolist()
    own = [rng.integers(5, VOCABULARY, int(rng.integers(3, 60))).tolist() for _ in range(count)]
    return [[*shared, *p] if i % 3 else p for i, p in enumerate(own)]


def requests() -> list[Request]:
    return [Request(p, tuple(stream(1, i, k) for k in range(3))) for i, p in enumerate(prompts())]


def choices() -> list[list[int]]:
    return [[7, 9, 11], [5]] * 4 + [[100, 3]]


def flat(groups):
    return [item for group in groups for item in group]


def reads_log_probabilities(engine, model) -> None:
    """They are those of a plain forward pass."""
    rows = engine.next_logprobs(prompts(), choices())
    for prompt, ids, row in zip(prompts(), choices(), rows, strict=True):
        assert row == pytest.approx(plain_logprobs(model, prompt)[-1][ids].tolist(), abs=ROUNDING)
    assert engine.next_logprobs([], []) == []


def _sampled(engine, model) -> list:
    """Groups of samples, with the model's log-probabilities over the whole vocabulary."""
    groups = engine.generate(requests(), SAMPLING)
    assert [len(group) for group in groups] == [3] * 9
    for request, group in zip(requests(), groups, strict=True):
        for completion in group:
            table = plain_logprobs(model, [*request.prompt, *completion.tokens])
            rows = table[len(request.prompt) - 1 : -1]
            expected = rows.gather(1, torch.tensor(completion.tokens)[:, None])[:, 0]
            assert completion.logprobs == pytest.approx(expected.tolist(), abs=ROUNDING)
    return groups


def samples_with_log_probabilities_of_the_whole_vocabulary(engine, model) -> None:
    completions = flat(_sampled(engine, model))
    assert {completion.tokens[-1] == STOP for completion in completions} == {True, False}
    for completion in completions:
        assert STOP not in completion.tokens[:-1]
        assert completion.tokens[-1] == STOP or len(completion.tokens) == SAMPLING.max_tokens
    assert engine.generate([], SAMPLING) == []


def each_of_several_stop_tokens_ends_a_completion(engine, model) -> None:
    """It begins as without the other token, and ends there."""
    alone = flat(engine.generate(requests(), SAMPLING))
    other = next(c.tokens[1] for c in alone if len(c.tokens) > 3)
    sampling = dataclasses.replace(SAMPLING, stop=(STOP, other))
    for completion, before in zip(flat(engine.generate(requests(), sampling)), alone, strict=True):
        tokens = before.tokens
        kept = tokens.index(other) + 1 if other in tokens else len(tokens)
        assert completion.tokens == tokens[:kept]


def draws_by_prompt_and_stream_alone(engine, model) -> None:
    groups = engine.generate(requests(), SAMPLING)
    assert [c.tokens for c in groups[5]] == [
        engine.generate([Request(prompts()[5], (name,))], SAMPLING)[0][0].tokens
        for name in requests()[5].streams
    ]
    engine.reset_cache()
    backwards = engine.generate(requests()[::-1], SAMPLING)[::-1]
    assert [c.tokens for c in flat(backwards)] == [c.tokens for c in flat(groups)]
    assert len({tuple(c.tokens) for c in groups[5]}) > 1
    other = engine.generate([Request(prompts()[5], (stream(2),))], SAMPLING)
    assert other[0][0].tokens not in [c.tokens for c in groups[5]]


def takes_the_likeliest_tokens_at_temperature_0(engine, model) -> None:
    """Whatever the stream."""
    greedy = Sampling(0.0, 0.8, 6, (STOP,))
    wanted = [Request(prompt, (1, 2, 3)) for prompt in prompts()]
    for request, group in zip(wanted, engine.generate(wanted, greedy), strict=True):
        assert len({tuple(completion.tokens) for completion in group}) == 1
        tokens = [*request.prompt, *group[0].tokens]
        likeliest = plain_logprobs(model, tokens).argmax(-1).tolist()
        assert likeliest[len(request.prompt) - 1 : -1] == group[0].tokens


def takes_requests_one_by_one(engine, model) -> None:
    """An engine that streams gives what it gives to all together."""
    if not engine.streams:
        pytest.skip("this engine does not stream")
    together = engine.generate(requests(), SAMPLING)
    left, tickets, results = requests()[::-1], {}, {}
    while left or len(results) < len(together):
        for _ in range(min(2, len(left))):
            request = left.pop()
            tickets[engine.submit(request, SAMPLING)] = request.streams
        results |= {tickets[ticket]: c for ticket, c in engine.collect(wait=True).items()}
    for request, group in zip(requests(), together, strict=True):
        assert [c.tokens for c in results[request.streams]] == [c.tokens for c in group]


def reads_prompts_one_by_one(engine, model) -> None:
    """Beside a request for samples, too."""
    if not engine.streams:
        pytest.skip("this engine does not stream")
    pairs = list(zip(prompts(), choices(), strict=True))
    beside = engine.submit(requests()[0], SAMPLING)
    tickets, results = [engine.submit_choices(*pair) for pair in pairs], {}
    while len(results) < len(pairs) + 1:
        results |= engine.collect(wait=True)
    assert [len(c.tokens) > 0 for c in results[beside]] == [True] * 3
    for (prompt, ids), ticket in zip(pairs, tickets, strict=True):
        expected = plain_logprobs(model, prompt)[-1][ids].tolist()
        assert results[ticket] == [pytest.approx(expected, abs=ROUNDING)]


def uses_new_weights_and_forgets_old_keys(engine, model) -> None:
    """A stale cache raises no exception, so numbers are compared."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.1)
    for loaded in (other, model):
        engine.next_logprobs(prompts(), choices())  # fills the cache with keys of the old weights
        engine.load_weights(loaded.named_parameters())
        reads_log_probabilities(engine, loaded)
        _sampled(engine, loaded)


# Those for an engine whose weights are fixed, and all.
WITH_ITS_WEIGHTS = (
    reads_log_probabilities,
    samples_with_log_probabilities_of_the_whole_vocabulary,
    each_of_several_stop_tokens_ends_a_completion,
    draws_by_prompt_and_stream_alone,
    takes_the_likeliest_tokens_at_temperature_0,
    takes_requests_one_by_one,
    reads_prompts_one_by_one,
)
CHECKS = (*WITH_ITS_WEIGHTS, uses_new_weights_and_forgets_old_keys)
