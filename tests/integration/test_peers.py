"""Every published credit trains on a tiny study; killed and resumed, it ends in the same bytes."""

import dataclasses

import numpy as np
import pytest
from small_runs import Killed, digests, small_study

from pcqc.jobs import rl_loop
from pcqc.jobs.clinic import known_world
from pcqc.methods.pcqc import Pcqc
from pcqc.system.files import read_json, read_jsonl

PEERS = ("igpo", "igpo_scorer", "tips", "vineppo", "gigpo", "mt_grpo", "c3", "expected_answer")


def make_study(folder):
    few = {"terminal_group": 2, "updates": 2}
    study = small_study(
        folder, methods={"pcqc": {**few, "question_group": 2}, "terminal_only": dict(few)}
    )
    # So many cases that some doctor asks in every update.
    return dataclasses.replace(study, rl=dataclasses.replace(study.rl, cases_per_update=6))


def train(study, name):
    rl_loop.run_training(study, name, "A", world=known_world(study))
    folder = study.results / "runs" / name / "A"
    rows = [row for _, row in read_jsonl(folder / "events.jsonl") if row["kind"] == "update"]
    return folder, rows


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_trains(study, name):
    folder, rows = train(study, name)
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
    assert spent > own if name in ("vineppo", "c3") else spent == own


def test_the_exact_expectation_needs_no_scorer(study):
    exact = dataclasses.replace(study.method("expected_answer"), imagined_answers=0)
    study = dataclasses.replace(study, methods={**study.methods, "expected_answer": exact})
    assert exact.needs == {"reference", "world"}
    _, rows = train(study, "expected_answer")
    assert "seconds/scorer" not in rows[0]


@pytest.mark.parametrize("name", ["vineppo", "c3"])
def test_a_killed_run_that_plays_on_ends_in_the_same_bytes(study, tmp_path, monkeypatch, name):
    folder, _ = train(study, name)
    unbroken = digests(folder, "checkpoints/*/*", "consultations.jsonl")
    folder.rename(tmp_path / "unbroken")
    learn, seen = rl_loop.Run.collect_rollouts, []

    def killing(self, update, *arguments):
        if update == 2 and not seen:
            seen.append(update)
            raise Killed
        return learn(self, update, *arguments)

    monkeypatch.setattr(rl_loop.Run, "collect_rollouts", killing)
    changed = dataclasses.replace(study, rl=dataclasses.replace(study.rl, save_every=1))
    with pytest.raises(Killed):
        rl_loop.run_training(changed, name, "A")
    rl_loop.run_training(changed, name, "A")
    assert seen
    assert digests(folder, "checkpoints/*/*", "consultations.jsonl") == unbroken
