"""The reinforcement-learning loop: order of cases, checkpoints, and exact resumption."""

import numpy as np
import pytest
import torch
from helpers import make_case, tiny_model

from pcqc.config import Method, Rl
from pcqc.errors import UserError
from pcqc.methods.draw import DrawnGroups
from pcqc.methods.sequences import KL, TERMINAL, Term, TrainingSequence
from pcqc.training.learners import GroupLearner
from pcqc.training.policy import Policy
from pcqc.training.rl import Loop, cases_of_update, run_loop

SETTINGS = Rl(cases_per_update=2, learning_rate=1e-2, checkpoint_every=2, save_every=2)
METHOD = Method("Test", terminal_group=2, updates=5, kl_coefficient=0.1)
CASES = [make_case(i) for i in range(5)]


class Killed(Exception):
    """Stands for a kill between two updates."""


def draw(update, cases, phases) -> DrawnGroups:
    """Material that is a function of the update's number alone."""
    rng = np.random.default_rng(update)
    sequences = []
    for _ in range(3):
        term = Term.zeros(12)
        term.select(4, 12, float(rng.normal()))
        terms = {TERMINAL: term, KL: Term(term.weights, np.zeros(12))}
        sequences.append(TrainingSequence(rng.integers(3, 120, 12).tolist(), terms, np.zeros(12)))
    rewards = rng.integers(0, 2, (2, 2)).astype(float)
    figures = {"accuracy": 0.5, "turns": 1.0, "tokens/actor_all": 7}
    drawn = [[None, None], [None, None]]  # consultations, of which the loop only wants the number
    return DrawnGroups(cases, drawn, list(rewards), list(rewards), figures, sequences, [])


def run(state, kill_at=None, seed=0):
    """Run a fresh loop; (policy, totals or None, what happened)."""
    policy = Policy(tiny_model(seed), tiny_model(1), SETTINGS)
    happened = []

    def on_update(update, drawn, report, totals, seconds):
        happened.append(("update", update, totals.trajectories, [c.case_id for c in drawn.cases]))
        if update == kill_at:
            raise Killed

    loop = Loop(
        cases=CASES,
        learner=GroupLearner(METHOD, policy),
        method=METHOD,
        settings=SETTINGS,
        seed=3,
        state=state,
        draw=draw,
        on_resume=lambda update: happened.append(("from", update)),
        on_update=on_update,
        on_checkpoint=lambda update: happened.append(("checkpoint", update)),
        label="test",
    )
    try:
        totals = run_loop(loop)
    except Killed:
        totals = None
    return policy, totals, happened


def test_the_loop_updates_validates_and_counts(tmp_path):
    _, totals, happened = run(tmp_path)
    assert [h for h in happened if h[0] != "update"] == [
        ("from", 0),
        ("checkpoint", 2),
        ("checkpoint", 4),
        ("checkpoint", 5),
    ]
    assert [h[1:3] for h in happened if h[0] == "update"] == [(i, 4 * i) for i in range(1, 6)]
    assert totals.trajectories == 20
    assert totals.actor_tokens == 35
    assert totals.device_seconds > 0


@pytest.mark.parametrize("kill_at", [1, 2, 3, 4, 5])
def test_a_killed_run_ends_where_an_uninterrupted_one_does(tmp_path, kill_at):
    straight, totals, expected = run(tmp_path / "straight")
    run(tmp_path / "killed", kill_at)
    resumed, again, happened = run(tmp_path / "killed", seed=0 if kill_at < 3 else 8)
    start = 2 * ((kill_at - 1) // 2)
    assert happened[0] == ("from", start)
    late = [h for h in expected[1:] if h[1] > start]
    assert happened[1:] == late
    assert (again.trajectories, again.actor_tokens) == (totals.trajectories, totals.actor_tokens)
    found = resumed.model.state_dict()
    assert all(torch.equal(t, found[n]) for n, t in straight.model.state_dict().items())


def test_a_finished_run_is_not_repeated(tmp_path):
    _, totals, _ = run(tmp_path)
    _, again, happened = run(tmp_path)
    assert happened == [("from", 5)]
    assert again == totals


def test_passes_over_the_cases_have_orders_of_their_own():
    """Five cases make two updates of two in a pass; the one left over differs from pass to pass."""
    drawn = [{c.case_id for c in cases_of_update(CASES, 3, update, 2)} for update in range(1, 21)]
    passes = [drawn[i] | drawn[i + 1] for i in range(0, 20, 2)]
    assert all(len(one) == 2 for one in drawn)
    assert all(len(one) == 4 for one in passes)
    assert set().union(*passes) == {c.case_id for c in CASES}
    assert len({frozenset(one) for one in passes}) > 1
    other = [{c.case_id for c in cases_of_update(CASES, 4, update, 2)} for update in range(1, 21)]
    assert other != drawn


def test_fewer_cases_than_an_update_takes_are_refused():
    with pytest.raises(UserError, match=r"5 training cases are fewer than rl\.cases_per"):
        cases_of_update(CASES, 3, 1, 6)
