"""ATPO's update: the critic, clipping where the ratio is not 1, and the mini-batches."""

import copy

import numpy as np
import pytest
import torch
from helpers import ROUNDING, plain_logprobs, tiny_model
from learner_material import ENDING, critic, gradients, learned, value_sequences
from learner_material import UNCLIPPED as RL

from pcqc.methods.atpo.atpo import Atpo, TreeBatch
from pcqc.methods.atpo.critic import Critic
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.atpo.trajectories import Trajectory
from pcqc.methods.base import Services
from pcqc.methods.sequences import TERMINAL
from pcqc.training.policy import Policy
from pcqc.training.policy_loss import Clip
from pcqc.training.state import States, load_state
from pcqc.training.training_sequence import KL, Term, TrainingSequence, ValueSequence
from pcqc.training.value_model import value_loss
from pcqc_base.settings import Rl


def trajectory(rng) -> Trajectory:
    length = int(rng.integers(10, 20))
    term = Term.zeros(length)
    term.select(5, length, float(rng.normal()), weight=1 / (length - 5))
    terms = {TERMINAL: term, KL: Term(term.weights, np.zeros(length))}
    tokens = rng.integers(3, 120, length).tolist()
    actor = TrainingSequence(tokens, terms, np.zeros(length))
    return Trajectory([actor], value_sequences(int(rng.integers(1000)), 1))


def drawn(update: int, count: int = 10) -> TreeBatch:
    rng = np.random.default_rng(update)
    made = [trajectory(rng) for _ in range(count)]
    return TreeBatch([], [], [], [], 0, {}, [], made, TreeSearch())


def outputs(model, tokens) -> torch.Tensor:
    """Outputs of a value model at every token, one plain forward pass."""
    hidden = model.body(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state
    return model.head(hidden)[0, :, 0]


def test_the_critic_starts_at_zero():
    judge = Critic(tiny_model(0).model, ENDING, TreeSearch(), RL)
    assert judge.values([[5, 6, 7, 8]])[0].tolist() == [0, 0]


def test_values_are_the_head_s_outputs_at_the_tokens_that_end_a_state():
    judge = critic()
    states = [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 10, 11, 12], [40, 41, 42], [5, 6, 7, 8, 9]]
    for state, values in zip(states, judge.values(states), strict=True):
        expected = outputs(judge.model, state)[-ENDING:].tolist()
        assert values.tolist() == pytest.approx(expected, abs=ROUNDING)
    assert judge.values([]) == []


def test_the_release_reads_a_token_earlier_and_keeps_its_values_where_it_trains():
    """Of a state of eight tokens it reads numbers 5 and 6, ours 6 and 7."""
    judge = critic(value_positions="release")
    state = [5, 6, 7, 8, 9, 10, 11, 12]
    expected = outputs(judge.model, state).tolist()
    assert judge.values([state])[0].tolist() == pytest.approx(expected[5:7], abs=ROUNDING)
    targets = np.full(8, np.nan)
    targets[[2, 3]] = 1.0
    sequence = ValueSequence(state, targets, np.full(8, np.nan))
    judge.keep_values([sequence])
    assert sequence.old_values[2:4].tolist() == pytest.approx(expected[2:4], abs=ROUNDING)
    assert np.isnan(sequence.old_values[[0, 1, 4, 5, 6, 7]]).all()


def test_an_update_at_the_release_s_positions_clips_at_the_values_before_it():
    learner = Learner(critic_updates=9, value_positions="release")
    batch = drawn(1)
    sequences = [s for t in batch.trajectories for s in t.critic]
    for sequence in sequences:
        sequence.old_values[:] = np.nan
    before = [
        outputs(learner.critic.model, s.tokens)[torch.from_numpy(s.selected)].tolist()
        for s in sequences
    ]
    learner.learn(1, batch)
    for sequence, values in zip(sequences, before, strict=True):
        kept = sequence.old_values[sequence.selected].tolist()
        assert kept == pytest.approx(values, abs=ROUNDING)


@pytest.mark.parametrize(
    ("value", "old", "target", "loss"),
    [
        (1.0, 1.0, 3.0, 2.0),
        (1.4, 1.0, 3.0, 1.28),  # within 0.5 of the old value
        (2.0, 1.0, 3.0, 1.125),  # counts no further than 1.5
        (0.0, 1.0, 3.0, 4.5),  # away from the target: the larger loss
    ],
)
def test_half_the_clipped_squared_error(value, old, target, loss):
    new = torch.tensor([value], requires_grad=True)
    computed = value_loss(new, torch.tensor([old]), torch.tensor([target]), 0.5)
    assert computed.item() == pytest.approx(loss)
    computed.sum().backward()
    assert (new.grad.item() == 0) == (loss == 1.125)


@pytest.mark.parametrize("budget", [1, 60, 100000])
def test_the_critic_s_gradient_is_that_of_a_computation_by_hand(budget):
    batch = value_sequences()
    rl = Rl(2, 1e-2, 1, max_gradient_norm=1e9, tokens_per_micro_batch=budget)
    judge = critic(rl=rl)
    by_hand = copy.deepcopy(judge.model)
    losses = [
        value_loss(
            outputs(by_hand, s.tokens)[torch.from_numpy(s.selected)],
            torch.from_numpy(s.old_values[s.selected]).float(),
            torch.from_numpy(s.targets[s.selected]).float(),
            0.5,
        )
        for s in batch
    ]
    torch.cat(losses).mean().backward()
    figures, gradient = learned(judge, batch)
    assert figures["critic/loss"] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-5)
    assert torch.allclose(gradient, gradients(by_hand), rtol=1e-3, atol=1e-5)


def test_the_kept_log_probabilities_are_those_before_the_first_step():
    policy = Policy(tiny_model(0), None, RL)
    batch = [t.actor[0] for t in drawn(0).trajectories]
    policy.keep_logprobs(batch)
    for sequence in batch:
        rows = plain_logprobs(policy.model, sequence.tokens)
        expected = [float(rows[i - 1, sequence.tokens[i]]) for i in range(5, len(sequence.tokens))]
        assert sequence.old_logprobs[5:].tolist() == pytest.approx(expected, abs=ROUNDING)
        assert np.isnan(sequence.old_logprobs[:5]).all()


def test_the_tree_s_settings_set_the_clipping(monkeypatch):
    learner = Learner(critic_updates=0, clip_high=0.35, dual_clip=7.0)
    seen, update = [], learner.policy.update

    def updating(sequences, coefficients, **named):
        seen.append(named["clip"])
        return update(sequences, coefficients, **named)

    monkeypatch.setattr(learner.policy, "update", updating)
    learner.learn(1, drawn(1))
    assert seen
    assert set(seen) == {Clip(RL.clip, 0.35, 7.0)}


def test_later_steps_of_an_update_clip_ratios():
    batch = [t.actor[0] for t in drawn(0).trajectories]
    policy = Policy(tiny_model(0), None, RL)
    policy.keep_logprobs(batch)
    coefficients = {TERMINAL: 1.0, KL: 0.0}
    first = policy.update(batch, coefficients, clip=Clip(0.2, 0.28, 10.0))
    assert first.statistics["ratio/clipped_share"] == 0
    ratios = np.concatenate(
        [
            np.exp(
                np.array([float(r[i - 1, s.tokens[i]]) for i in range(5, len(s.tokens))])
                - s.old_logprobs[5:]
            )
            for s in batch
            for r in [plain_logprobs(policy.model, s.tokens)]
        ]
    )
    second = policy.update(batch, coefficients, clip=Clip(0.2, 0.28, 10.0))
    outside = np.mean((ratios < 0.8) | (ratios > 1.28))
    assert outside > 0
    assert second.statistics["ratio/clipped_share"] == pytest.approx(outside)
    assert second.statistics["ratio/mean"] == pytest.approx(ratios.mean(), rel=1e-4)
    # Per-sequence token means: the loss by hand.
    loss, start = 0.0, 0
    for s in batch:
        part = ratios[start : start + len(s.tokens) - 5]
        start += len(part)
        a = s.terms[TERMINAL].advantages[5:]
        gain = np.minimum(part * a, np.clip(part, 0.8, 1.28) * a)
        loss -= np.where(a < 0, np.maximum(gain, 10 * a), gain).mean() / len(batch)
    assert second.losses[TERMINAL] == pytest.approx(loss, rel=1e-4)


class Learner:
    """ATPO with a policy and a critic of its own."""

    def __init__(self, seed=0, updates=100, **settings):
        tree = TreeSearch(**settings)
        self.method = Atpo("Tree", "atpo", updates=updates, kl_coefficient=0.01, tree=tree)
        self.policy = Policy(tiny_model(seed), tiny_model(1), RL)
        self.critic = critic(seed=seed, rl=RL, **settings)
        self.services = Services(self.policy, 5, critic=self.critic)
        self.parts = {"actor": self.policy.state, "critic": self.critic.state}

    def learn(self, update, batch):
        return self.method.learn(self.services, update, batch)


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (4, 1), (10, 2), (11, 3), (40, 10)])
def test_mini_batches_hold_every_trajectory_once(count, steps):
    batches = Atpo("Tree", "atpo", tree=TreeSearch(trajectories_per_step=4)).mini_batches(
        5, 1, count
    )
    assert sorted(np.concatenate(batches)) == list(range(count))
    assert len(batches) == steps
    sizes = [len(b) for b in batches]
    assert max(sizes) - min(sizes) <= 1


def test_the_critic_trains_alone_first_and_the_actor_s_rate_rises():
    learner = Learner(critic_updates=2, updates=100, actor_warmup=0.03)
    before = copy.deepcopy(learner.policy.model.state_dict())
    for update in (1, 2):
        report = learner.learn(update, drawn(update))
        assert (report.losses, report.statistics.keys() & {"gap/max"}) == ({}, set())
        assert report.statistics["critic/loss"] > 0
    assert all(torch.equal(before[n], t) for n, t in learner.policy.model.state_dict().items())
    report = learner.learn(3, drawn(3))
    assert learner.policy.backend.optimizers[0].param_groups[0]["lr"] == pytest.approx(1e-2 / 3)
    assert report.losses[TERMINAL] != 0
    assert any(not torch.equal(before[n], t) for n, t in learner.policy.model.state_dict().items())
    assert [learner.method.actor_rate(learner.policy, u) for u in (4, 5, 6, 100)] == pytest.approx(
        [2 / 3, 1, 1, 1]
    )


def test_an_update_takes_several_steps_of_actor_and_critic():
    learner = Learner(critic_updates=0, trajectories_per_step=3, actor_warmup=0.0)
    report = learner.learn(1, drawn(1))
    assert report.statistics["steps"] == 3
    tokens = sum(int((t.actor[0].terms[TERMINAL].weights > 0).sum()) for t in drawn(1).trajectories)
    assert report.statistics["tokens/trained"] == tokens
    steps = {float(s["step"]) for s in learner.policy.backend.optimizers[0].state.values()}
    assert (
        steps
        == {3.0}
        == {float(s["step"]) for s in learner.critic.backend.optimizers[0].state.values()}
    )


def test_actor_and_critic_resume_exactly(tmp_path):
    straight = Learner(critic_updates=1)
    for update in range(1, 5):
        straight.learn(update, drawn(update))
    first = Learner(critic_updates=1)
    for update in (1, 2):
        first.learn(update, drawn(update))
    States(tmp_path, first.parts).save({"step": 2})
    second = Learner(seed=7, critic_updates=1)
    assert load_state(tmp_path, second.parts) == {"step": 2}
    for update in (3, 4):
        second.learn(update, drawn(update))
    for one, other in (
        (straight.policy.model, second.policy.model),
        (straight.critic.model, second.critic.model),
    ):
        resumed = other.state_dict()
        assert all(torch.equal(t, resumed[n]) for n, t in one.state_dict().items())
