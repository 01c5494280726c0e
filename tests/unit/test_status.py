"""Where a study stands, told and on the screen: results, locks and logs as they would be left."""

import io
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hand_made import finish_all
from rich.console import Console

from pcqc_base.system.files import write_atomic, write_jsonl
from pcqc_base.system.locks import hold
from pcqc_base.system.manifest import hold_folder, lock, make_latest
from pcqc_study import status as module
from pcqc_study import watch
from pcqc_study.graph import Jobs, log_path
from pcqc_study.mlflow_mirror.open_store import artifacts
from pcqc_study.status import job_states, status_of_all, told
from pcqc_study.study_file import load_study

RUN = ("train", "select", "evaluate")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study with one run of GRPO, and all its jobs done."""
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic")
    methods = {
        name: replace(method, runs=("A",) if name == "grpo" else ())
        for name, method in study.methods.items()
    }
    study = replace(study, methods=methods, continuation=None)
    finish_all(study)
    with closing(sqlite3.connect("results/mlflow.db")) as store, store:
        store.execute("CREATE TABLE experiments (name, artifact_location, lifecycle_stage)")
        row = (study.name, str(artifacts(study)), "active")
        store.execute("INSERT INTO experiments VALUES (?, ?, ?)", row)
    return study


def status(study) -> str:
    return told(module.status(study))


def states(study) -> dict[str, tuple[str, str]]:
    return {state.job.name: (state.state, state.reason) for state in job_states(study)}


def test_a_store_that_lost_the_runs_is_told(study):
    Path("results/mlflow.db").unlink()
    lost = ("stale", "MLflow's store lacks the study's runs")
    assert states(study)["mirror grpo"] == lost
    assert "1 stale" in status(study)


def unmake(study, *kinds: str) -> None:
    for kind in kinds:
        job = Jobs(study).job(kind, "grpo", "A")
        job.manifest.unlink()
        (job.folder / "latest").unlink()


def log_of(study, kind: str):
    fingerprint = Jobs(study).job(kind, "grpo", "A").path.name
    return log_path(study, kind, "grpo", "A", fingerprint)


def test_all_is_done(study):
    assert set(states(study).values()) == {("done", "")}
    first, last = status(study).splitlines()
    assert first == f"clinic: {len(states(study))} of {len(states(study))} jobs done"
    assert last == "report   results/clinic/report.html"
    # The study as its file has it has further methods.
    assert " stale, " in status_of_all()["clinic"]
    data = module.status(study)
    assert (data["done"], data["unfinished"], data["report_current"]) == (data["jobs"], [], True)


def test_a_changed_setting_makes_a_job_stale_and_those_after_it(study):
    changed = replace(study, rl=replace(study.rl, clip=0.1))
    now = states(changed)
    assert now["train grpo A"] == ("stale", "setting rl.clip: 0.2 -> 0.1")
    assert now["evaluate grpo A"] == ("stale", "after train grpo A")
    assert now["sft"] == ("done", "")
    assert module.stale(changed) == ["stale (setting rl.clip: 0.2 -> 0.1): train grpo A"]
    assert module.stale(study) == []
    assert status(changed).endswith("results/clinic/report.html, older than a result")


def test_a_running_job_says_how_far_it_is(study):
    unmake(study, *RUN)
    text = "grpo A: 7/20 updates, 0.50/s, 26 s left"
    write_atomic(log_of(study, "train"), f"2026-01-02 03:04:05 {text}\n")
    with hold_folder(Jobs(study).job("train", "grpo", "A")):
        assert states(study)["train grpo A"] == ("running", text)
        assert states(study)["evaluate grpo A"] == ("to do", "")
        with hold(study.results / ".lock", "a test"):
            shown = status(study)
    assert ", 1 running, 2 to do" in shown
    assert "the workflow is running" in shown
    assert states(study)["train grpo A"] == ("to do", "")


def test_a_failed_job_says_its_error(study):
    unmake(study, "evaluate")
    path = log_of(study, "evaluate")
    write_atomic(path, "2026-01-02 03:04:05 evaluate\npcqc: error: no weights; run sft\n")
    assert states(study)["evaluate grpo A"] == ("failed", "no weights; run sft")
    assert module.failures(study, 0.0, "") == ["pcqc: error: no weights; run sft"]
    assert module.failures(study, 1e12, "") == [GOES_ON]
    write_atomic(path, "Traceback (most recent call last):\nKeyError: 'x'\n")
    assert states(study)["evaluate grpo A"] == ("failed", f"KeyError: 'x' ({path})")
    for stopped in ("Traceback (most recent call last):\nKeyboardInterrupt\n", "pcqc: stopped\n"):
        write_atomic(path, stopped)
        assert module.failures(study, 0.0, "") == [GOES_ON]


def test_an_unfinished_job_of_settings_that_were_finished_before_is_said(study):
    """As one that was killed: nothing failed, and the old result is there."""
    changed = replace(study, rl=replace(study.rl, clip=0.1))
    job = Jobs(changed).job("train", "grpo", "A")
    job.path.mkdir()
    make_latest(Jobs(study).job("train", "grpo", "A"))
    assert states(changed)["train grpo A"] == ("stale", "it has not finished")


def test_work_left_is_what_the_same_work_took(study, monkeypatch):
    methods = {**study.methods, "grpo": replace(study.methods["grpo"], runs=("A", "B"))}
    study = replace(study, methods=methods)
    monkeypatch.setattr(module, "_seconds", lambda job: 60.0 if job.kind == "train" else 0.0)
    assert module.work_left(study, job_states(study)) == 60.0
    assert "about 60 s of work left" in status(study)


def test_looking_at_a_lock_that_nobody_has_made_makes_nothing(study):
    path = lock(Jobs(study).job("train", "grpo", "A").path)
    assert not module.held(path)
    assert not path.exists()


def screen_of(study) -> list[str]:
    written = io.StringIO()
    Console(width=120, file=written).print(watch.screen(study))
    return written.getvalue().splitlines()


def test_a_training_shows_its_curve_and_how_far_it_is(study):
    unmake(study, "train", "select", "evaluate")
    job = Jobs(study).job("train", "grpo", "A")
    rows = [{"kind": "update", "update": n, "accuracy": 0.5 + n / 10} for n in range(4)]
    write_jsonl(job.path / "events.jsonl", [*rows, {"kind": "validation", "accuracy": 0.1}])
    write_atomic(log_of(study, "train"), "2026-01-31 12:00:00 grpo A: 4/6 updates\n")
    with hold_folder(job):
        shown = screen_of(study)
    (row,) = [line for line in shown if "grpo A" in line]
    assert all(text in row for text in ("running", "▁▃▆█", "80.0 %", "4/6 updates"))
    assert "1 running" in shown[0]


def test_other_jobs_are_named_where_they_failed(study):
    unmake(study, "evaluate")
    write_atomic(log_of(study, "evaluate"), "pcqc: error: [disk] is full\n")
    assert any(line.startswith("failed   evaluate grpo A: [disk] is") for line in screen_of(study))


def test_a_flat_or_empty_curve_is_drawn():
    assert watch.sparkline([0.5, 0.5]) == "▁▁"
    assert watch.sparkline([]) == ""
    assert len(watch.sparkline([n / 100 for n in range(100)])) == watch.WIDTH


FAILED = """RuleException:
CalledProcessError in file "/pcqc/workflow/rules/runs.smk", line 9:
Command 'set -euo pipefail;  (/bin/python -m pcqc_study.cli train clinic grpo A --fingerprint 0a1b2c3d) 2>&1 | tee' {how}.
[Fri Nov 27 17:26:52 2026]
Error in rule train:
    message: None
    jobid: 7
    output: results/clinic/runs/grpo/A/0a1b2c3d.made
    log: {log} (check log file(s) for error details)
    shell:
        (/bin/python -m pcqc_study.cli train clinic grpo A --fingerprint 0a1b2c3d) 2>&1 | tee {log}
        (command exited with non-zero exit code)
Shutting down, this might take some time.
"""  # noqa: E501
GOES_ON = "pcqc: stopped; run the same command again: it goes on where it stopped"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("returned non-zero exit status 137", "SIGKILL (often for want of memory)"),
        ("returned non-zero exit status 139", "SIGSEGV"),
        ("died with <Signals.SIGTERM: 15>", "SIGTERM"),
    ],
)
def test_a_job_that_was_killed_is_named_with_its_signal(study, how, said):
    log = log_of(study, "train")
    write_atomic(log, "2026-01-31 12:00:00 train grpo A: 3/4 updates\n")
    assert module.failures(study, 0.0, FAILED.format(how=how, log=log)) == [
        f"pcqc: error: `pcqc train clinic grpo A` was ended by {said}; its log is {log}",
        GOES_ON,
    ]


def test_a_job_that_could_not_tell_that_the_disk_was_full_is_told_by_the_workflow(
    study, monkeypatch
):
    log = log_of(study, "train")
    write_atomic(log, "")
    usage = shutil.disk_usage(log)._replace(free=4096)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: usage)
    how = "returned non-zero exit status 1"
    (line, _) = module.failures(study, 0.0, FAILED.format(how=how, log=log))
    assert line.endswith(f"its log is {log}, whose disk is full: free some space and run again")


def test_after_ctrl_c_the_last_line_says_how_to_go_on(study):
    """Every job ends by that signal, which is no error; nor is a workflow that was told to end."""
    how = "returned non-zero exit status 130"
    assert module.failures(study, 0.0, FAILED.format(how=how, log="none.log")) == [GOES_ON]
    assert module.failures(study, 0.0, "Will exit after finishing currently running jobs") == [
        GOES_ON
    ]


def test_a_job_that_said_what_is_wrong_is_told_once(study):
    log = log_of(study, "train")
    write_atomic(log, "pcqc: error: cases.jsonl, line 3: fix the row\n")
    text = FAILED.format(how="returned non-zero exit status 2", log=log)
    assert module.failures(study, 0.0, text) == ["pcqc: error: cases.jsonl, line 3: fix the row"]
    write_atomic(log, "")
    assert module.failures(study, 0.0, text)[0].startswith(
        "pcqc: error: `pcqc train clinic grpo A` ended without a message; its log is results/"
    )
