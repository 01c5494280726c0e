"""The learner: global normalisers, the clipped objective, KL, and exact resumption."""

import copy
import math

import numpy as np
import pytest
import torch
from helpers import ROUNDING, plain_logprobs, tiny_model
from learner_material import COEFFICIENTS, gradients, sequences, updated
from learner_material import UNCLIPPED as RL

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training import scoring_head
from pcqc.training.batching import micro_batches
from pcqc.training.kl import kl_estimate
from pcqc.training.policy import Policy
from pcqc.training.policy_loss import Clip, clipped_policy_loss, ratio_statistics
from pcqc.training.training_sequence import KL, TrainingSequence
from pcqc_base.errors import UserError
from pcqc_gpu.planning.architecture import SCRATCH_VOCABULARY
from pcqc_study.study_file import load_study


def by_hand(seqs, coefficients) -> tuple[dict, torch.Tensor]:
    """Losses and gradient from one unpadded forward pass per sequence, ratio 1 (one PPO epoch)."""
    model, reference = tiny_model(0), tiny_model(1)
    counts = {n: sum(s.terms[n].weights.sum() for s in seqs if n in s.terms) for n in coefficients}
    losses = dict.fromkeys(coefficients, 0.0)
    for s in seqs:
        ids = torch.tensor([s.tokens])
        rows = torch.log_softmax(model(input_ids=ids, use_cache=False).logits[0].float(), -1)
        other = plain_logprobs(reference, s.tokens)
        for i in range(1, len(s.tokens)):
            for name, term in s.terms.items():
                if not term.weights[i]:
                    continue
                logprob = rows[i - 1, s.tokens[i]]
                if name == KL:
                    d = other[i - 1, s.tokens[i]].float() - logprob
                    value = torch.exp(d) - d - 1
                else:
                    value = -torch.exp(logprob - logprob.detach()) * float(term.advantages[i])
                losses[name] = losses[name] + value / counts[name]
    sum(coefficients[n] * loss for n, loss in losses.items()).backward()
    return {n: float(loss.detach()) for n, loss in losses.items()}, gradients(model)


def test_losses_and_gradient_are_those_of_a_computation_by_hand():
    report, computed = updated(sequences())
    losses, gradient = by_hand(sequences(), COEFFICIENTS)
    assert report.losses == pytest.approx(losses, rel=1e-4)
    assert torch.allclose(computed, gradient, rtol=1e-3, atol=2e-6)
    assert report.statistics["gradient_norm"] == pytest.approx(float(gradient.norm()), rel=1e-4)


@pytest.mark.parametrize("tokens", [1, 7])
def test_logits_in_parts_give_the_same_losses_and_gradient(tokens, monkeypatch):
    whole, expected = updated(sequences())
    held = []
    monkeypatch.setattr(scoring_head, "LOGITS", tokens * tiny_model(0).config.vocab_size)
    score = scoring_head.ScoringHead._score
    monkeypatch.setattr(
        scoring_head.ScoringHead, "_score", lambda *a: held.append(len(a[1])) or score(*a)
    )
    parts, in_parts = updated(sequences())
    assert parts.losses == pytest.approx(whole.losses, rel=1e-5)
    assert torch.allclose(in_parts, expected, rtol=1e-4, atol=1e-6)
    assert max(held) == tokens


def test_the_clinics_logits_are_one_part():
    """So that what it computes, and how fast, is as if there were no parts."""
    for name in ("clinic", "clinic-mini", "clinic-mini-engines"):
        most = load_study(name).rl.tokens_per_micro_batch
        assert most * SCRATCH_VOCABULARY <= scoring_head.LOGITS


@pytest.mark.parametrize("budget", [1, 50, 100, 200])
def test_the_gradient_is_the_same_for_any_split_into_micro_batches(budget):
    whole, expected = updated(sequences(), tokens_per_micro_batch=100000)
    split, computed = updated(sequences(), tokens_per_micro_batch=budget)
    assert len(list(micro_batches(sequences(), budget))) > 1
    scale = expected.abs().max()
    # Another split sums dozens of fp32 terms in another order: some ten times 1.2e-7, measured.
    assert float((computed - expected).abs().max() / scale) < 1e-5
    assert split.losses == pytest.approx(whole.losses, rel=1e-5)
    for name in ("ratio/mean", "gap/mean", "gap/max", "tokens/trained"):
        assert split.statistics[name] == pytest.approx(whole.statistics[name], rel=1e-5)


def test_without_a_weight_on_kl_no_reference_is_needed():
    policy = Policy(tiny_model(0), None, RL)
    report = policy.update(sequences(), {**COEFFICIENTS, KL: 0.0})
    assert report.losses[KL] == 0
    assert math.isfinite(report.statistics["gradient_norm"])


def test_an_update_without_question_tokens_has_no_question_loss():
    only = [s for s in sequences() if QUESTION not in s.terms]
    report, _ = updated(only)
    assert QUESTION not in report.losses
    assert report.losses[TERMINAL] != 0


def test_an_update_without_sequences_changes_nothing():
    policy = Policy(tiny_model(0), None, RL)
    before = copy.deepcopy(policy.model.state_dict())
    assert policy.update([], COEFFICIENTS).losses == {}
    assert all(torch.equal(before[n], t) for n, t in policy.model.state_dict().items())


def test_ratios_are_one_and_the_gap_to_the_engine_is_reported():
    seqs = sequences()
    model = tiny_model(0)
    for s in seqs:
        rows = plain_logprobs(model, s.tokens)
        s.engine_logprobs[1:] = [float(rows[i - 1, t]) for i, t in enumerate(s.tokens)][1:]
    report, _ = updated(seqs)
    assert report.statistics["ratio/mean"] == pytest.approx(1)
    assert report.statistics["ratio/clipped_share"] == 0
    assert report.statistics["gap/max"] < ROUNDING
    seqs[4].engine_logprobs[-1] += 0.5
    assert updated(seqs)[0].statistics["gap/max"] == pytest.approx(0.5, abs=ROUNDING)


def test_the_gradient_is_clipped_to_its_norm():
    _, free = updated(sequences())
    report, clipped = updated(sequences(), max_gradient_norm=0.01)
    assert float(clipped.norm()) == pytest.approx(0.01, rel=1e-3)
    assert report.statistics["gradient_norm"] == pytest.approx(float(free.norm()), rel=1e-4)


def test_a_loss_that_is_not_finite_changes_nothing():
    seqs = sequences()
    seqs[0].terms[TERMINAL].advantages[:] = np.inf
    policy = Policy(tiny_model(0), tiny_model(1), RL)
    before = copy.deepcopy(policy.model.state_dict())
    with pytest.raises(UserError, match="not finite"):
        policy.update(seqs, COEFFICIENTS)
    assert all(torch.equal(before[n], t) for n, t in policy.model.state_dict().items())


EVEN, ATPO = Clip(0.2, 0.2), Clip(0.2, 0.28, dual=10.0)


@pytest.mark.parametrize(
    ("clip", "ratio", "advantage", "loss"),
    [
        (EVEN, 1.0, 2.0, -2.0),
        (EVEN, 1.1, 2.0, -2.2),
        (EVEN, 1.5, 2.0, -2.4),  # clipped at 1.2
        (EVEN, 0.5, 2.0, -1.0),  # the minimum keeps the unclipped
        (EVEN, 0.9, -2.0, 1.8),
        (EVEN, 0.5, -2.0, 1.6),  # clipped at 0.8
        (EVEN, 1.5, -2.0, 3.0),
        (EVEN, 1.5, 0.0, 0.0),
        (ATPO, 1.25, 1.0, -1.25),  # between the two bounds above
        (ATPO, 1.5, 1.0, -1.28),
        (ATPO, 0.5, -1.0, 0.8),
        (ATPO, 1.5, -1.0, 1.5),
        (ATPO, 25.0, -1.0, 10.0),  # the dual bound
        (ATPO, 25.0, 1.0, -1.28),
    ],
)
def test_the_clipped_objective(clip, ratio, advantage, loss):
    new = torch.tensor([math.log(ratio)], requires_grad=True)
    computed = clipped_policy_loss(new, torch.zeros(1), torch.tensor([advantage]), clip)
    assert computed.item() == pytest.approx(loss, rel=1e-5)
    computed.sum().backward()
    is_clipped = loss != pytest.approx(-ratio * advantage)
    assert new.grad.item() == pytest.approx(0 if is_clipped else -ratio * advantage, rel=1e-5)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(("old", "ratio"), [(-100.0, math.exp(20)), (100.0, math.exp(-20))])
def test_a_ratio_beyond_all_bounds_is_finite_and_moves_nothing(old, ratio, advantage):
    """exp(100) is inf in fp32, and the gradient of the side that `minimum` left out NaN."""
    new, given = torch.zeros(1, requires_grad=True), torch.tensor([advantage])
    computed = clipped_policy_loss(new, torch.tensor([old]), given, EVEN)
    expected = -min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    assert computed.item() == pytest.approx(expected, rel=1e-5)
    computed.sum().backward()
    assert new.grad.item() == 0
    statistics = ratio_statistics(new, torch.tensor([old]), EVEN)
    assert statistics == {"ratio/mean": pytest.approx(ratio, rel=1e-5), "ratio/clipped_share": 1.0}


def test_the_bound_on_ratios_changes_no_bit_within_it():
    """A clamp gives its argument back, and its gradient is the argument's: results stay equal."""
    rng = np.random.default_rng(0)
    old, change, credit = (torch.from_numpy(rng.normal(size=500)).float() for _ in range(3))
    outcomes = []
    for bounded in (True, False):
        new = (old + 6 * change).requires_grad_()  # ratios from e^-19 to e^19
        assert (new - old).abs().max() < 20
        ratio = torch.exp(new - old)
        clipped = torch.minimum(ratio * credit, ratio.clamp(0.8, 1.2) * credit)
        loss = clipped_policy_loss(new, old, credit, EVEN) if bounded else -clipped
        loss.sum().backward()
        outcomes.append((loss, new.grad))
    assert all(map(torch.equal, *outcomes))


def test_the_kl_estimate_is_unbiased_and_not_negative():
    p = torch.tensor([0.6, 0.3, 0.1]).double()
    q = torch.tensor([0.2, 0.5, 0.3]).double()
    estimate = kl_estimate(p.log(), q.log())
    assert (estimate >= 0).all()
    assert (p * estimate).sum().item() == pytest.approx((p * (p / q).log()).sum().item())
    assert kl_estimate(p.log(), p.log()).abs().max() == 0


def test_the_kl_estimate_does_not_overflow():
    """exp of a log ratio of 89 or more is inf in fp32, and its gradient NaN once it is masked."""
    logprobs = torch.tensor([-89.0, -200.0, 0.0], requires_grad=True)
    estimate = kl_estimate(logprobs, torch.tensor([0.0, 0.0, -500.0]))
    assert estimate.tolist() == pytest.approx([math.exp(20) - 21] * 2 + [19.0])
    (estimate * torch.tensor([0.0, 1.0, 1.0])).sum().backward()
    assert torch.isfinite(logprobs.grad).all()


def test_micro_batches_keep_the_budget_and_hold_every_sequence():
    seqs = sequences(count=30)
    batches = list(micro_batches(seqs, 100))
    assert sorted(id(s) for b in batches for s in b) == sorted(id(s) for s in seqs)
    assert all(len(b) * max(len(s.tokens) for s in b) <= 100 for b in batches)
    assert [len(b) for b in micro_batches(seqs, 1)] == [1] * 30


def sampled_by(policy: Policy, *, off: float = 0.0) -> list[TrainingSequence]:
    """Sequences with the policy's own log-probabilities as the engine's; one token is `off`."""
    made = sequences()
    policy.keep_logprobs(made)
    for sequence in made:
        sequence.engine_logprobs = sequence.old_logprobs.copy()
    place = int(np.flatnonzero(made[3].selected)[0])
    made[3].engine_logprobs[place] += off
    return made


@pytest.mark.parametrize("off", [math.nan, 200.0])
def test_the_gap_alarm_stops_before_the_step(off):
    """NaN alarms; so does 200 nats over 118 tokens, a mean of 1.7."""
    policy = Policy(tiny_model(0), tiny_model(1), RL, gap_alarm=1.0)
    before = copy.deepcopy(policy.model.state_dict())
    with pytest.raises(UserError, match=r"engine and learner differ by (nan|1\.\d+) in a token's"):
        policy.update(sampled_by(policy, off=off), COEFFICIENTS)
    assert all(torch.equal(t, before[n]) for n, t in policy.model.state_dict().items())


def test_rounding_in_a_single_token_does_not_alarm_and_is_recorded():
    policy = Policy(tiny_model(0), tiny_model(1), RL, gap_alarm=0.05)
    report = policy.update(sampled_by(policy, off=3.0), COEFFICIENTS)
    assert report.statistics["gap/max"] == pytest.approx(3.0)
    assert report.statistics["gap/mean"] == pytest.approx(3.0 / report.statistics["tokens/trained"])
