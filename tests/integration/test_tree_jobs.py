"""A run of ATPO on a tiny study: what it leaves, and that a kill anywhere changes nothing."""

from pathlib import Path

import pytest
from small_runs import Killed, digests, small_study

from pcqc.jobs import rl_loop
from pcqc.jobs.run import run_job, task_of
from pcqc.methods.atpo import critic
from pcqc.methods.atpo.critic import Critic
from pcqc.results.graph import Jobs
from pcqc.system.files import read_json, read_jsonl, sha256_file
from pcqc.system.processes import SINGLE_PROCESS

METHOD, RUN = "atpo", "A"
TREE = {"budget": 4, "candidates": 2, "trajectories_per_step": 2, "critic_updates": 1}
ROOT = Path("results/small")
TRAINED = Path("runs", METHOD, RUN, "latest")
KEPT = (
    "validation/*.parquet",
    "trees.jsonl",
    "consultations.jsonl",
    "checkpoints/*/model.safetensors",
)


def make_study(folder: Path):
    """The small study with ATPO, saved after every second update."""
    return small_study(folder, methods={METHOD: {"updates": 5, "tree": TREE}})


def kill_at_call(monkeypatch, owner, name: str, number: int):
    """Make the `number`-th call of a method a kill, and count on after it."""
    original, calls = getattr(owner, name), []

    def killing(*arguments, **named):
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, killing)


def test_the_critic_is_made_before_engines_take_memory(study, monkeypatch):
    """While a model is sharded it is also whole: beside vLLM's memory it would not fit."""
    made, make_context = [], rl_loop.make_context
    monkeypatch.setattr(
        rl_loop, "make_context", lambda *a: made.append("engines") or make_context(*a)
    )
    monkeypatch.setattr(critic, "Critic", lambda *a: made.append("critic") or Critic(*a))
    rl_loop.Run(task_of(study, Jobs(study).job("train", METHOD, RUN)), SINGLE_PROCESS)
    assert made == ["critic", "engines"]


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("values", 2),  # in the search of the first update
        ("values", 11),  # in that of a later one
        ("update", 2),  # between two critic steps of the first update
        ("update", 5),
    ],
)
def test_a_run_killed_in_a_search_or_critic_step_ends_in_the_same_bytes(
    study, finished, monkeypatch, method, call
):
    kill_at_call(monkeypatch, Critic, method, call)
    with pytest.raises(Killed):
        run_job(study, "train", METHOD, RUN)
    assert not (ROOT / TRAINED).exists()
    run_job(study, "train", METHOD, RUN)
    made = digests(ROOT / TRAINED, *KEPT)
    assert len(made) == 3 + 1 + 1 + 3
    assert made == digests(finished / TRAINED, *KEPT)


def test_a_run_leaves_its_whole_record(finished):
    folder = finished / TRAINED
    manifest = read_json(folder / "manifest.json")
    assert {name: sha256_file(folder / name) for name in manifest["files"]} == manifest["files"]
    assert "trees.jsonl" in manifest["files"]
    assert not (folder / "candidate_groups.jsonl").exists()
    events = [row for _, row in read_jsonl(folder / "events.jsonl")]
    updates = [e for e in events if e["kind"] == "update"]
    assert [e["update"] for e in updates] == [1, 2, 3, 4, 5]
    wanted = {"tree/nodes", "tree/pruned_share", "critic/loss", "seconds/critic", "reward/mean"}
    assert all(wanted <= e.keys() for e in updates)
    # The critic learns alone in the first update.
    assert ["loss/terminal" in e for e in updates] == [False, True, True, True, True]
    assert updates[-1]["gap/max"] < 1e-4
    assert manifest["totals"]["trajectories"] == updates[-1]["trajectories"] > 5 * 2
    # A tree keeps every response that was sampled; its questions are answered.
    assert all(e["sampled/actor"] == e["tokens/actor_all"] for e in updates)
    sampled = sum(e["sampled/actor"] + e["sampled/patient"] for e in updates)
    assert manifest["totals"]["sampled_tokens"] == sampled > manifest["totals"]["actor_tokens"]


def test_the_recorded_trees_hold_every_number(finished):
    rows = [row for _, row in read_jsonl(finished / TRAINED / "trees.jsonl")]
    assert [row["update"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        nodes = row["nodes"]
        assert nodes[0]["parent"] is None
        ends = [node for node in nodes if node["terminal"] and not node["pruned"]]
        assert nodes[0]["visits"] == len(ends)
        for node in nodes[1:]:
            assert node["response"] is not None
            assert node["terminal"] == (node["ending"] is not None)
            if node["visits"]:
                gain = node["reward"] + node["value"] - nodes[node["parent"]]["value"]
                assert node["advantage"] == pytest.approx(gain / node["visits"])


def test_it_is_evaluated_like_every_method(finished):
    manifest = read_json(finished / "evaluation" / METHOD / RUN / "latest" / "manifest.json")
    assert set(manifest["benchmarks"]) == {
        "clinic_dev",
        "clinic_wide",
        "clinic_sparse",
        "clinic_elsewhere",
    }
