"""Killed without warning, and run again: the same bytes as without the kill."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from kills import WAIT, essence, kill, lines, start, wait_until
from workplace import SETTINGS, STUDY, Workplace

from pcqc_base.system.files import read_jsonl
from pcqc_study.check_results import prepare_to_run
from pcqc_study.study_file import load_study

PCQC = (STUDY, "pcqc", "A")


def kill_when(place: Workplace, command: list[str], reached) -> None:
    """Run a command and kill it as soon as `reached()`; it must not have ended before."""
    process = start(place, command)
    wait_until(reached, process)
    kill(process)


@pytest.mark.slow  # `test_jobs.py` kills trainings without the workflow
def test_a_killed_training_goes_on_to_the_same_weights(mini, copy):
    shutil.rmtree(copy.results / "runs/pcqc/A")
    made = (mini.results / "runs/pcqc/A/latest").resolve()
    folder, command = copy.results / "runs/pcqc/A" / made.name, copy.command("train", *PCQC)
    # In the first update after a state; in the midst of a checkpoint; where the last one begins.
    for moment in (
        lambda: lines(folder / "events.jsonl") == 1,
        lambda: lines(folder / "events.jsonl") >= 2 and (folder / "checkpoints").exists(),
        lambda: lines(folder / "events.jsonl") >= 4,
    ):
        kill_when(copy, command, moment)
        assert not (folder / "manifest.json").exists()
    # What a kill can leave: a torn line, a state and a file that were being written.
    for name in ("events", "candidate_groups"):
        with open(folder / f"{name}.jsonl", "a") as file:
            file.write('{"kind": "upd')
    state = folder / "state" / "training"
    torn = state / ".step-000004.tmp"
    torn.mkdir(exist_ok=True)
    (torn / "model.safetensors").write_bytes(b"torn")
    (folder / "validation" / ".000004.parquet.x.tmp").write_bytes(b"torn")
    resumed = [p.name for p in state.glob("step-*")]
    assert resumed, "nothing to resume from: the kills came too early to test anything"
    assert copy.run(command).returncode == 0
    # Removed already where the validation was written again.
    (folder / "validation" / ".000004.parquet.x.tmp").unlink(missing_ok=True)
    assert essence(folder) == essence(made)
    assert kinds(folder) == kinds(made)


def kinds(run: Path) -> list[tuple[str, int]]:
    """Kind and update of every event, whose other numbers are seconds, too."""
    return [(row["kind"], row["update"]) for _, row in read_jsonl(run / "events.jsonl")]


@pytest.mark.slow
def test_a_kill_as_a_manifest_appears_leaves_the_rest_to_be_made(copy, monkeypatch):
    """Snakemake has not noted then that the job ended; it must neither repeat it nor stop there.

    A run marks what is whole as it starts; a dry run writes nothing, so the mark is made here.
    """
    monkeypatch.chdir(copy.folder)
    for name in ("selection/pcqc", "evaluation/pcqc", "collected"):
        shutil.rmtree(copy.results / name)
    selected = copy.results / "selection/pcqc"
    kill_when(copy, copy.workflow(), lambda: list(selected.glob("A/[0-9a-f]*/manifest.json")))
    prepare_to_run(load_study(STUDY))
    planned = copy.planned()
    assert "Choose the checkpoint of pcqc, run A" not in planned
    assert {"Evaluate pcqc, run A", "Collect all runs from MLflow"} <= set(planned)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_named_and_how_to_go_on_is_said(copy):
    shutil.rmtree(copy.results / "runs/pcqc/A")
    place = copy.cold()  # a worker is a process of its own
    workflow = subprocess.Popen(
        place.workflow("--until", "train"),
        cwd=place.folder,
        env=place.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )

    def workers():
        children = psutil.Process(workflow.pid).children(recursive=True)
        return [child for child in children if child.cmdline()[3:4] == ["train"]]

    wait_until(lambda: any(copy.results.glob("runs/pcqc/A/*/state")), workflow)
    workers()[0].kill()
    *_, killed, last = workflow.communicate()[1].splitlines()
    assert killed.startswith(f"pcqc: error: `pcqc train {STUDY} pcqc A` was ended by SIGKILL")
    assert last == "pcqc: stopped; run the same command again: it goes on where it stopped"
    assert workflow.returncode == 1


@pytest.mark.slow  # a worker that is killed ends so too
def test_ctrl_c_ends_in_how_to_go_on(tmp_path):
    """A terminal sends it to the workflow and to its jobs, here while a model is pretrained."""
    place = Workplace(tmp_path / "place").cold()
    process = start(place, place.workflow())
    logs = place.results / "logs" / "base"
    wait_until(
        lambda: any(logs.glob("*.log")) and any(place.results.glob("models/base/*")), process
    )
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(WAIT) == 1
    process.drain.join(WAIT)
    output = process.last_output()
    assert output.splitlines()[-1] == (
        "pcqc: stopped; run the same command again: it goes on where it stopped"
    )
    assert "pcqc: error" not in output
    assert "Traceback" not in output


def test_a_killed_fine_tuning_goes_on_to_the_same_weights(mini, copy):
    shutil.rmtree(copy.results / "models/sft")
    command, made = copy.command("sft", STUDY), (mini.results / "models/sft/latest").resolve()
    folder = copy.results / "models/sft" / made.name
    kill_when(copy, command, lambda: list(folder.glob("state/*/step-*/manifest.json")))
    assert not (folder / "actor").exists()
    # The patient is kept before the state of its epoch, so that no resumed run misses it.
    assert list(folder.glob("state/*/patient/manifest.json"))
    assert copy.run(command).returncode == 0
    assert essence(folder) == essence(made)


@pytest.mark.long
def test_a_killed_pretraining_goes_on_to_the_same_weights(copy):
    shutil.rmtree(copy.results / "models")
    copy.edit(SETTINGS, "mixture_steps: 10", "mixture_steps: 120")
    copy.edit(SETTINGS, "most_steps: 100", "most_steps: 400")
    command, models = copy.command("base", STUDY), copy.results / "models/base"
    kill_when(copy, command, lambda: list(models.glob("*/state/base/step-*/manifest.json")))
    assert not (models / "latest").exists()
    assert copy.run(command).returncode == 0
    resumed = essence(models)
    shutil.rmtree(models)
    assert copy.run(command).returncode == 0
    assert essence(models) == resumed
