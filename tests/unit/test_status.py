"""Where a study stands: files, receipts, locks and logs of jobs as they would be left."""

from dataclasses import replace

import pytest

from pcqc.jobs import status as module
from pcqc.jobs.status import job_states, status, status_of_all
from pcqc.study import load_study
from pcqc.study.job_outputs import steps
from pcqc.study.paths import Paths
from pcqc.system.files import hold, write_atomic, write_json

SELECTION = {
    "benchmark": "clinic_dev",
    "criterion": "accuracy",
    "selected": {"update": 20, "accuracy": 0.7, "turns": 1.0},
    "rejected": [],
}


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
    for one in steps(study, "grpo", "A"):
        content = SELECTION if one.job == "select" else {"job": one.name, "files": {}}
        write_json(one.manifest, content)
        one.finish([str(one.manifest.relative_to(one.receipt_path.parent))])
    write_atomic(study.results / "report.html", "all of it")
    return study


def states(study) -> dict[str, tuple[str, str]]:
    return {job.product.name: (job.state, job.reason) for job in job_states(study)}


def unmake(study, *names: str) -> None:
    for one in steps(study, "grpo", "A"):
        if one.name in names:
            one.manifest.unlink()


def test_all_is_done(study):
    assert set(states(study).values()) == {("done", "")}
    assert status(study).splitlines() == [
        "clinic: 6 of 6 jobs done",
        "report   results/clinic/report.html",
    ]
    # The study as its file has it has further methods.
    assert status_of_all().startswith("clinic: 6 of ")


def test_a_changed_setting_makes_a_job_stale_and_those_after_it(study):
    changed = replace(study, rl=replace(study.rl, learning_rate=0.1))
    found = states(changed)
    assert found["train grpo A"] == ("stale", "setting rl.learning_rate: 0.0006 -> 0.1")
    assert found["evaluate grpo A"] == ("stale", "after training")
    assert found["sft"] == ("done", "")


def test_a_dry_run_names_what_changed_and_the_last_lines_what_failed(study):
    changed = replace(study, rl=replace(study.rl, learning_rate=0.1))
    assert module.stale(changed) == [
        "stale (setting rl.learning_rate: 0.0006 -> 0.1): train grpo A"
    ]
    assert module.stale(study) == []
    write_atomic(study.results / "logs" / "sft.log", "pcqc: error: no weights; run models\n")
    assert module.failures(study, 0.0) == ["pcqc: error: no weights; run models"]
    assert module.failures(study, 1e12) == []


def test_a_running_job_says_how_far_it_is(study):
    unmake(study, "train grpo A", "select grpo A", "evaluate grpo A")
    path = study.results / "logs" / "train" / "grpo-A.log"
    write_atomic(path, "2026-01-02 03:04:05 grpo A: 7/20 updates, 0.50/s, 26 s left\n")
    with hold(study.results / "locks" / "train-grpo-A", "a test"):
        found = states(study)
        assert found["train grpo A"] == ("running", "grpo A: 7/20 updates, 0.50/s, 26 s left")
        assert found["evaluate grpo A"] == ("to do", "")
        with hold(study.results / ".lock", "a test"):
            said = status(study)
    assert said.startswith("clinic: 3 of 6 jobs done, 1 running, 2 to do")
    assert "the workflow is running" in said
    assert states(study)["train grpo A"] == ("to do", "")


def test_a_failed_job_says_its_error(study):
    unmake(study, "evaluate grpo A")
    path = study.results / "logs" / "evaluate" / "grpo-A.log"
    write_atomic(path, "2026-01-02 03:04:05 evaluate\npcqc: error: no weights; run sft\n")
    assert states(study)["evaluate grpo A"] == ("failed", "no weights; run sft")
    write_atomic(path, "Traceback (most recent call last):\nKeyError: 'x'\n")
    assert states(study)["evaluate grpo A"] == ("failed", f"KeyError: 'x' ({path})")


def test_work_left_is_what_the_same_work_took(study, monkeypatch):
    methods = {**study.methods, "grpo": replace(study.methods["grpo"], runs=("A", "B"))}
    study = replace(study, methods=methods)
    monkeypatch.setattr(module, "_seconds", lambda one: 60.0 if one.job == "train" else 0.0)
    assert module.work_left(job_states(study)) == 60.0
    assert "about 60 s of work left" in status(study)


def test_a_report_older_than_a_result_is_said(study):
    write_json(Paths.of(study).evaluation("grpo", "A") / "manifest.json", {"job": "later"})
    assert status(study).endswith("results/clinic/report.html, older than a result")


def test_looking_at_a_lock_that_nobody_has_made_makes_nothing(study):
    lock = study.results / "locks" / "train-grpo-A"
    assert not module.held(lock)
    assert not lock.exists()
