"""Engine and learner as two policies: how far apart they are, and what a correction is worth."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import tiny_model
from learner_material import COEFFICIENTS, UNCLIPPED, learned, sequences

from pcqc.methods.sequences import TERMINAL
from pcqc.training.mismatch import Ratios, statistics
from pcqc.training.policy import Policy
from pcqc.training.scoring_head import with_scoring_head
from pcqc.training.training_sequence import Term, TrainingSequence

TWO, FOUR = math.log(2), math.log(4)
MISMATCH = ("log", "truncate", "mask")


def test_the_distance_is_that_by_hand():
    """Token ratios 2, 2 and 1/4 in sequences of two and one, whose ratios are 4 and 1/4."""
    made = statistics(Ratios(np.array([TWO, TWO, -FOUR]), [2, 1]).sums())
    assert made == pytest.approx(
        {
            "gap/mean": 4 * TWO / 3,
            "gap/max": FOUR,
            "gap/k1": 0.0,  # -(2 log 2 - log 4) / 3
            "gap/k3": (1 + 1 - 0.75 - 2 * TWO + FOUR) / 3,
            "gap/token_ratio": 4.25 / 3,
            "gap/token_ratio_max": 2.0,
            "gap/token_ess": 4.25**2 / (3 * (4 + 4 + 1 / 16)),
            "gap/tokens_above": 0.0,
            "gap/sequence_ratio": 4.25 / 2,
            "gap/sequence_ratio_max": 4.0,
            "gap/sequence_ess": 4.25**2 / (2 * (16 + 1 / 16)),
            "gap/sequences_above": 0.5,
        },
        abs=1e-12,
    )


def test_weights_are_those_by_hand():
    ratios = Ratios(np.array([TWO, FOUR, TWO, -FOUR]), [2, 2])
    assert ratios.weights("log") is None
    assert ratios.weights("truncate") == pytest.approx([2, 3, 2, 0.25])
    assert ratios.weights("mask") == pytest.approx([0, 0, 0.5, 0.5])  # ratios 8 and 1/2
    assert Ratios(np.empty(0), []).weights("mask").tolist() == []


def step(mismatch: str, off: float = 0.0):
    """Of a step on tokens to which the engine gave `off` more or less than the learner, in turn."""
    settings = dataclasses.replace(UNCLIPPED, mismatch=mismatch)
    policy, made = Policy(tiny_model(0), tiny_model(1), settings), sequences()
    policy.keep_logprobs(made)
    for sequence in made:
        signs = (-1.0) ** np.arange(len(sequence.tokens))
        sequence.engine_logprobs = sequence.old_logprobs + off * signs
    return learned(policy, made, COEFFICIENTS)


@pytest.mark.parametrize("mismatch", MISMATCH)
def test_an_engine_that_agrees_leaves_the_gradient_as_it_is(mismatch):
    report, gradient = step(mismatch)
    assert torch.equal(gradient, step("log")[1])
    assert report.statistics["gap/token_ess"] == report.statistics["gap/sequence_ess"] == 1
    assert report.statistics["gap/k3"] == 0


def test_what_is_logged_does_not_touch_the_gradient():
    report, gradient = step("log", off=0.5)
    assert torch.equal(gradient, step("log")[1])
    assert report.statistics["gap/mean"] == pytest.approx(0.5)
    # Every other token: the mean of exp(0.5) - 1.5 and exp(-0.5) - 0.5 at most.
    assert 0.1 < report.statistics["gap/k3"] < 0.15


class Body(torch.nn.Module):
    """Each token's hidden state is the token."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.vocabulary, self.dtype = vocabulary, torch.float32

    def forward(self, input_ids, **_):
        hidden = torch.nn.functional.one_hot(input_ids, self.vocabulary).float()
        return SimpleNamespace(last_hidden_state=hidden)


class Table(torch.nn.Module):
    """A policy whose logits of the next token stand in a table, by the token before it."""

    def __init__(self, logits: torch.Tensor):
        super().__init__()
        self.model, self.lm_head = Body(len(logits)), torch.nn.Linear(*logits.shape, bias=False)
        self.lm_head.weight.data = logits.T.clone()


SIZE, LENGTH = 3, 3


def expected_gradient(sampler: torch.Tensor, policy: torch.Tensor, mismatch: str) -> torch.Tensor:
    """The policy's, exactly: over all sequences, each as often as the sampler draws it."""
    rows = sampler.log_softmax(-1).double().numpy()
    credit = np.random.default_rng(1).normal(size=SIZE**LENGTH)
    made = []
    for number, drawn in enumerate(itertools.product(range(SIZE), repeat=LENGTH)):
        tokens, term = [0, *drawn], Term.zeros(LENGTH + 1)
        logprobs = np.array([0.0, *(rows[a, b] for a, b in itertools.pairwise(tokens))])
        term.select(1, LENGTH + 1, credit[number], math.exp(logprobs.sum()))
        made.append(TrainingSequence(tokens, {TERMINAL: term}, logprobs))
    learner = Policy(Table(policy), None, dataclasses.replace(UNCLIPPED, mismatch=mismatch))
    return learned(learner, made, {TERMINAL: 1.0})[1]


@pytest.mark.parametrize(("size", "left"), [(0.1, 1e-5), (0.5, 0.7)])
def test_a_correction_takes_away_bias_of_a_perturbed_sampler(size, left):
    """Sequences' ratios take all of it away, but for those above the bound; tokens' a part."""
    torch.manual_seed(2)
    policy, noise = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    wanted = expected_gradient(policy, policy, "log")
    bias = {
        name: float((expected_gradient(policy + size * noise, policy, name) - wanted).norm())
        for name in MISMATCH
    }
    assert bias["truncate"] < 0.7 * bias["log"]
    assert bias["mask"] < left * bias["log"]


def test_a_head_in_float32_does_not_round_its_logits():
    torch.manual_seed(0)
    model = tiny_model(0).to(torch.bfloat16)
    hidden = torch.randn(40, 32, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.arange(40)
    with torch.no_grad():
        weight = model.lm_head.weight.double()
        exact = torch.log_softmax(hidden.double() @ weight.T, -1).gather(1, targets[:, None])[:, 0]
    far, gradient = {}, {}
    for float32 in (True, False):
        logprobs = with_scoring_head(model, float32).lm_head(hidden, targets)
        (gradient[float32],) = torch.autograd.grad(logprobs.sum(), hidden)
        far[float32] = float((logprobs.detach() - exact).abs().max())
    # Logits are some units in size: fp32 rounds them by 1e-6, bf16 by up to 2^-7.
    assert far[True] < 1e-5 < 1e-3 < far[False]
    assert torch.allclose(gradient[True], gradient[False], rtol=0.02, atol=0.02)
