"""One uniform number per token: top-p, inverse cumulative distribution, temperature."""

import numpy as np
import pytest
import torch

from pcqc.engines.base import Sampling
from pcqc.engines.sampling import draw, nucleus
from pcqc.system.seeds import stream, uniform

CHANCES = torch.tensor([0.4, 0.05, 0.3, 0.15, 0.1], dtype=torch.float64)
STREAMS = np.array([stream(0, i) for i in range(20000)], np.uint64)


def drawn(temperature: float, top_p: float, step: int = 0):
    logits = CHANCES.log().expand(len(STREAMS), -1)
    return draw(logits, STREAMS, step, Sampling(temperature, top_p, 1, 0))


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1.0, [0, 1, 2, 3, 4]),
        (0.96, [0, 1, 2, 3, 4]),
        (0.95, [0, 2, 3, 4]),
        (0.86, [0, 2, 3, 4]),
        (0.84, [0, 2, 3]),
        (0.69, [0, 2]),
        (0.39, [0]),
        (0.0001, [0]),
    ],
)
def test_the_smallest_set_of_likeliest_tokens_is_kept(top_p, kept):
    weights = nucleus(CHANCES[None], top_p - 1e-9)[0]
    assert weights.nonzero()[:, 0].tolist() == kept
    assert torch.equal(weights[kept], CHANCES[kept])


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (1.0, 0.8), (0.5, 1.0), (2.0, 0.7)])
def test_frequencies_are_those_of_the_truncated_distribution(temperature, top_p):
    tokens, _ = drawn(temperature, top_p)
    expected = nucleus(torch.softmax(CHANCES.log() / temperature, 0)[None], top_p)[0]
    expected = (expected / expected.sum()).numpy()
    shares = np.bincount(tokens.numpy(), minlength=5) / len(STREAMS)
    assert np.abs(shares - expected).max() < 4 * np.sqrt(0.25 / len(STREAMS))
    assert not shares[expected == 0].any()


def test_the_cumulative_distribution_is_inverted_in_the_order_of_ids():
    tokens, _ = drawn(1.0, 1.0)
    edges = np.cumsum(CHANCES.numpy())
    expected = np.searchsorted(edges, uniform(STREAMS, 0), side="right")
    assert tokens.tolist() == expected.tolist()


def test_temperature_zero_takes_the_likeliest():
    tokens, logprobs = drawn(0.0, 0.8)
    assert set(tokens.tolist()) == {0}
    assert logprobs[0] == pytest.approx(np.log(0.4))


def test_logprobs_are_of_the_whole_vocabulary_at_temperature_one():
    tokens, logprobs = drawn(0.5, 0.5)
    assert torch.allclose(logprobs, CHANCES.log()[tokens])
