"""Killed without warning, and run again: the same bytes as without the kill."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from kills import WAIT, essence, kill, lines, start
from workplace import STUDY, Workplace

from pcqc.system.files import read_jsonl

SETTINGS = f"config/studies/{STUDY}.yaml"


def kill_when(place: Workplace, command: list[str], reached) -> None:
    """Run a command and kill it as soon as `reached()`; it must not have ended before."""
    process = start(place, command)
    deadline = time.monotonic() + WAIT
    while not reached():
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill(process)


@pytest.fixture
def unmade(copy):
    """A copy of the finished study, and a function that removes one job's outputs and state."""

    def remove(*names: str) -> Workplace:
        for name in names:
            shutil.rmtree(copy.results / name)
        return copy

    return remove


def test_a_killed_training_goes_on_to_the_same_weights(mini, unmade):
    place = unmade("runs/pcqc/A")
    folder, command = place.results / "runs/pcqc/A", place.command("train", STUDY, "pcqc", "A")
    # In the first update after a state; in the midst of a checkpoint; where the last one begins.
    for moment in (
        lambda: lines(folder / "events.jsonl") == 1,
        lambda: lines(folder / "events.jsonl") >= 2 and (folder / "checkpoints").exists(),
        lambda: lines(folder / "events.jsonl") >= 4,
    ):
        kill_when(place, command, moment)
        assert not (folder / "manifest.json").exists()
    # What a kill can leave: a torn line, a state and a file that were being written.
    for name in ("events", "candidate_groups"):
        with open(folder / f"{name}.jsonl", "a") as file:
            file.write('{"kind": "upd')
    (state,) = (folder / "state").iterdir()
    torn = state / ".step-000004.tmp"
    torn.mkdir(exist_ok=True)
    (torn / "model.safetensors").write_bytes(b"torn")
    (folder / "validation" / ".000004.parquet.x.tmp").write_bytes(b"torn")
    resumed = [p.name for p in state.glob("step-*")]
    assert resumed, "nothing to resume from: the kills came too early to test anything"
    assert place.run(command).returncode == 0
    # Removed already where the validation was written again.
    (folder / "validation" / ".000004.parquet.x.tmp").unlink(missing_ok=True)
    mine, reference = essence(folder), essence(mini.results / "runs/pcqc/A")
    del mine["manifest.json"], reference["manifest.json"]
    assert mine == reference
    updates = [(row["kind"], row["update"]) for _, row in read_jsonl(folder / "events.jsonl")]
    expected = read_events(mini.results / "runs/pcqc/A/events.jsonl")
    assert updates == [(row["kind"], row["update"]) for row in expected]


def read_events(path: Path) -> list[dict]:
    return [row for _, row in read_jsonl(path)]


def test_a_killed_fine_tuning_goes_on_to_the_same_weights(mini, unmade):
    place = unmade("models/actor", "models/patient", "models/state")
    command = place.command("sft", STUDY)
    state = place.results / "models" / "state"
    kill_when(place, command, lambda: list(state.glob("sft-*/step-*/manifest.json")))
    assert not (place.results / "models" / "actor").exists()
    # The patient is kept before the state of its epoch, so that no resumed run misses it.
    assert list(state.glob("sft-*/patient/manifest.json"))
    assert place.run(command).returncode == 0
    for role in ("actor", "patient"):
        expected = essence(mini.results / "models" / role)
        assert essence(place.results / "models" / role) == expected


def test_a_killed_pretraining_goes_on_to_the_same_weights(unmade):
    place = unmade("models")
    place.edit(SETTINGS, "mixture_steps: 10", "mixture_steps: 120")
    place.edit(SETTINGS, "most_steps: 100", "most_steps: 400")
    command, models = place.command("pretrain", STUDY), place.results / "models"
    kill_when(place, command, lambda: list(models.glob("state/base-*/step-*/manifest.json")))
    assert not (models / "base").exists()
    assert place.run(command).returncode == 0
    resumed = essence(models / "base")
    shutil.rmtree(models)
    assert place.run(command).returncode == 0
    assert essence(models / "base") == resumed


def test_two_trainings_of_one_run_keep_out_of_each_other(unmade):
    """A job may outlive a workflow that was killed alone; a rerun then waits for the user."""
    place = unmade("runs/pcqc/A").cold()
    command = place.command("train", STUDY, "pcqc", "A")
    first = start(place, command)
    events = place.results / "runs/pcqc/A/events.jsonl"
    try:
        deadline = time.monotonic() + WAIT
        while not lines(events) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGSTOP)
        second = place.run(command)
    finally:
        kill(first)
    assert second.returncode == 2
    assert second.stderr.startswith("pcqc: error: `pcqc train pcqc A` is already under way")
