"""Curves in MLflow while a run trains: what is sent, once each, and what a dead server costs."""

import socket
import time

import pytest
from run_folders import make_study
from tracked import mirror
from workplace import digests

from pcqc.errors import UserError
from pcqc.results.graph import Jobs
from pcqc.study import Tracking
from pcqc.system.files import read_json
from pcqc.tracking.live import Live
from pcqc.tracking.mlflow_store import open_store


def training(study):
    """The MLflow run of a training under way."""
    store = open_store(study)
    runs = store.client.search_runs([store.experiment.experiment_id], "tags.stage = 'training'")
    return store.client, runs


def steps(study, name: str, wanted: int) -> list[int]:
    """Updates whose points MLflow has, once there are as many as wanted: it writes in threads."""
    client, (run,) = training(study)
    for _ in range(100):
        points = client.get_metric_history(run.info.run_id, name)
        if len(points) >= wanted:
            break
        time.sleep(0.1)
    return [point.step for point in points]


def test_each_row_is_sent_once_and_half_a_row_waits(ready):
    job = Jobs(ready).job("train", "pcqc", "A")
    file = job.path / "events.jsonl"
    whole = file.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    live = Live(ready)
    file.unlink()
    live.send([job])
    assert training(ready)[1] == []
    file.write_text("".join(lines[:2]) + lines[2][:20], encoding="utf-8")
    live.send([job])
    assert steps(ready, "reward/mean", 2) == [1, 2]
    file.write_text("".join(lines[:3]), encoding="utf-8")
    live.send([job])
    assert steps(ready, "reward/mean", 3) == [1, 2, 3]
    # Another watcher goes on with the same run.
    Live(ready).send([job])
    assert len(training(ready)[1]) == 1
    file.write_text(whole, encoding="utf-8")
    written = read_json(mirror(ready, "pcqc"))
    (run,) = training(ready)[1]
    assert run.data.tags["current"] == "no"
    assert run.data.tags["superseded_by"] == written["runs"]["A"]["run_id"]


def test_a_dead_server_changes_nothing_and_is_one_line(study, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    hasty = make_study(Tracking(timeout_seconds=4))
    before = digests(hasty.results)
    with pytest.raises(UserError, match="did not answer") as caught:
        Live(hasty).send([Jobs(hasty).job("train", "pcqc", "A")])
    assert "\n" not in str(caught.value)
    assert digests(hasty.results) == before
