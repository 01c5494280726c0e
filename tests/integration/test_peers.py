"""Published credits and ATPO train on a tiny study; killed, they end in the same bytes."""

import numpy as np
import pytest
from digests import digests
from helpers import changed
from small_runs import killed_at, small_study

from pcqc.jobs import rl_loop
from pcqc.logged.updates import read_updates
from pcqc.methods.atpo import critic
from pcqc.methods.atpo.critic import Critic
from pcqc.methods.pcqc import Pcqc
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.processes import SINGLE_PROCESS
from pcqc_study.graph import Jobs
from pcqc_study.run_job import run_job, task_of

# By the actor's beliefs, without any, without an answer, and by consultations that are played on;
# `test_creditbench_train.py` trains others by the scorer's beliefs.
PEERS = ("a2tgpo", "gigpo", "expected_answer", "c3")  # InfoPO is below, killed and resumed
PLAYED_ON = ("vineppo", "c3")  # consultations are continued to value their states
TREE = {"budget": 4, "candidates": 2, "trajectories_per_step": 2, "critic_updates": 1}


def make_study(folder):
    few = {"terminal_group": 2, "updates": 2}
    methods = {"pcqc": {**few, "question_group": 2}, "terminal_only": dict(few)}
    study = small_study(folder, methods=methods | {"atpo": {"updates": 2, "tree": TREE}})
    # So many cases that some doctor asks in every update.
    return changed(study, "rl.cases_per_update", 6)


def train(study, name):
    folder = run_job(study, "train", name, "A").path
    rows = read_updates(folder / "events.jsonl", folder / "times.jsonl")
    rows = [row for row in rows if row["kind"] == "update"]
    return folder, rows


def check(study, name, folder, rows):
    assert [row["update"] for row in rows] == [1, 2]
    method = study.method(name)
    if isinstance(method, Pcqc):
        assert all("credit/groups" in row for row in rows)
        groups = [row for _, row in read_jsonl(folder / "candidate_groups.jsonl")]
        assert all(len(group["candidates"]) == 2 for group in groups)
    else:
        assert all(np.isfinite(row["credit/turn_spread"]) for row in rows)
    # What was played on to value states is counted: it is what such a credit costs.
    own = 2 * study.rl.cases_per_update * method.terminal_group
    spent = read_json(folder / "manifest.json")["totals"]["trajectories"]
    assert spent > own if name in PLAYED_ON else spent == own


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_trains(study, name):
    check(study, name, *train(study, name))


def test_the_exact_expectation_needs_no_scorer(study):
    study = changed(study, "methods.expected_answer.imagined_answers", 0)
    assert study.method("expected_answer").needs == {"reference", "world"}
    _, rows = train(study, "expected_answer")
    assert "seconds/scorer" not in rows[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vineppo", "atpo", "infopo"])
def test_a_killed_run_that_plays_on_searches_or_reads_again_ends_in_the_same_bytes(study, name):
    folder, rows = train(study, name)
    if name != "atpo":
        check(study, name, folder, rows)
    kept = ("checkpoints/*/*", "consultations.jsonl", "trees.jsonl")
    unbroken = digests(folder, *kept)
    saving = changed(study, "rl.save_every", 1)
    with killed_at(rl_loop.Run, "collect_rollouts", lambda _, update, *__: update == 2):
        run_job(saving, "train", name, "A")
    resumed = run_job(saving, "train", name, "A").path
    assert resumed != folder
    assert digests(resumed, *kept) == unbroken


def test_the_critic_is_made_before_engines_take_memory(study, monkeypatch):
    """While a model is sharded it is also whole: beside vLLM's memory it would not fit."""
    made, make_context = [], rl_loop.make_context
    monkeypatch.setattr(
        rl_loop, "make_context", lambda *a: made.append("engines") or make_context(*a)
    )
    monkeypatch.setattr(critic, "Critic", lambda *a: made.append("critic") or Critic(*a))
    rl_loop.Run(task_of(study, Jobs(study).job("train", "atpo", "A")), SINGLE_PROCESS)
    assert made == ["critic", "engines"]
