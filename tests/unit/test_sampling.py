"""One uniform number per token: top-p, inverse cumulative distribution, temperature."""

import numpy as np
import pytest
import torch

from pcqc.engines.base import Sampling
from pcqc.engines.sampling import draw, nucleus
from pcqc.seeds import stream, uniform
from pcqc_base.errors import UserError

CHANCES = torch.tensor([0.4, 0.05, 0.3, 0.15, 0.1], dtype=torch.float64)
STREAMS = np.array([stream(0, i) for i in range(20000)], np.uint64)


def drawn(temperature: float, top_p: float, step: int = 0):
    logits = CHANCES.log().expand(len(STREAMS), -1)
    return draw(logits, STREAMS, step, Sampling(temperature, top_p, 1, (0,)))


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
def test_the_truncated_distribution_is_inverted_in_the_order_of_ids(temperature, top_p):
    tokens, _ = drawn(temperature, top_p)
    kept = nucleus(torch.softmax(CHANCES.log() / temperature, 0)[None], top_p)[0]
    edges = np.cumsum((kept / kept.sum()).numpy())
    expected = np.searchsorted(edges, uniform(STREAMS, 0), side="right")
    assert tokens.tolist() == expected.tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_an_error_in_words(temperature, spoilt):
    """One of them in one row; the vocabulary's last token would be drawn without a word."""
    logits = CHANCES.log().repeat(3, 1)
    logits[1, 2] = spoilt
    with pytest.raises(UserError, match=r"token 8 of a response: its logits are not finite; check"):
        draw(logits, STREAMS[:3], 7, Sampling(temperature, 0.9, 1, (0,)))


def test_a_token_that_cannot_come_is_no_error():
    """Its logit is minus infinity, as engines mark it."""
    logits = CHANCES.log()[None].clone()
    logits[0, 0] = -np.inf
    tokens, logprobs = draw(logits, STREAMS[:1], 0, Sampling(0.0, 1.0, 1, (0,)))
    assert tokens.tolist() == [2]
    assert logprobs.tolist() == pytest.approx([np.log(0.5)])


def test_logprobs_are_of_the_whole_vocabulary_at_temperature_one():
    tokens, logprobs = drawn(0.5, 0.5)
    assert torch.allclose(logprobs, CHANCES.log()[tokens])
