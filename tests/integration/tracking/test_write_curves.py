"""Curves in MLflow while a run trains: what is sent, once each, and what a dead server costs."""

import os
import threading
import time

import pytest
from digests import digests
from helpers import free_port
from run_folders import make_study
from tracked import mirror

from pcqc_base.errors import UserError
from pcqc_base.settings.tracking import Tracking
from pcqc_base.system.files import write_jsonl
from pcqc_base.system.locks import hold
from pcqc_base.system.machine import now
from pcqc_base.system.manifest import hold_folder
from pcqc_study import follow
from pcqc_study.graph import Jobs
from pcqc_study.mlflow_mirror import write_curves
from pcqc_study.mlflow_mirror.open_store import open_store


def training(study):
    """The MLflow run of a training under way."""
    store = open_store(study)
    runs = store.client.search_runs([store.experiment.experiment_id], "tags.stage = 'training'")
    return store.client, runs


def steps(study, name: str, wanted: int) -> list[int]:
    """Updates whose points MLflow has, once there are as many as wanted: it writes in threads."""
    points = []
    for _ in range(300):
        client, runs = training(study)
        points = [
            point for run in runs for point in client.get_metric_history(run.info.run_id, name)
        ]
        if len(points) >= wanted:
            break
        time.sleep(0.1)
    return [point.step for point in points]


def test_each_row_is_sent_once_and_half_a_row_waits(ready):
    job = Jobs(ready).job("train", "pcqc", "A")
    file = job.path / "events.jsonl"
    whole = file.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    sender = write_curves.Live(ready)
    file.unlink()
    sender.send([job])
    assert training(ready)[1] == []
    file.write_text("".join(lines[:2]) + lines[2][:20], encoding="utf-8")
    sender.send([job])
    assert steps(ready, "reward/mean", 2) == [1, 2]
    file.write_text("".join(lines[:3]), encoding="utf-8")
    sender.send([job])
    assert steps(ready, "reward/mean", 3) == [1, 2, 3]
    # Another watcher goes on with the same run.
    write_curves.Live(ready).send([job])
    assert len(training(ready)[1]) == 1
    file.write_text(whole, encoding="utf-8")
    mirror(ready, "pcqc")
    assert training(ready)[1] == []  # the finished run has taken its place


def test_a_study_is_followed_until_its_workflow_has_ended(ready, monkeypatch):
    job = Jobs(ready).job("train", "pcqc", "A")
    monkeypatch.setattr(follow, "SECONDS", 0.0)
    monkeypatch.setattr(os, "nice", lambda _: None)  # of the tests' own process
    with hold(ready.results / ".lock", "a run"):
        followed = threading.Thread(target=follow.follow, args=(ready,))
        followed.start()
        with hold_folder(job):
            steps(ready, "reward/mean", 4)
            (run,) = training(ready)[1]
            assert run.info.status == "RUNNING"
        (job.path / "manifest.json").unlink()  # it was stopped
        assert followed.is_alive()
    followed.join(timeout=60)
    assert not followed.is_alive()
    (run,) = training(ready)[1]
    assert run.info.status == "KILLED"
    write_curves.Live(ready).send([job])  # it goes on
    (run,) = training(ready)[1]
    assert run.info.status == "RUNNING"


def test_a_training_that_has_just_begun_is_not_sent(ready):
    job = Jobs(ready).job("train", "pcqc", "A")
    for name in ("events", "times"):
        row = {"kind": "update", "update": 1, "time": now(), "kl": 0.0}
        write_jsonl(job.path / f"{name}.jsonl", [row])
    write_curves.Live(ready).send([job])
    assert training(ready)[1] == []


def test_a_dead_server_changes_nothing_and_is_one_line(study, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    hasty = make_study(Tracking(timeout_seconds=4))
    before = digests(hasty.results)
    with pytest.raises(UserError, match="did not answer") as caught:
        write_curves.Live(hasty).send([Jobs(hasty).job("train", "pcqc", "A")])
    assert "\n" not in str(caught.value)
    assert digests(hasty.results) == before
