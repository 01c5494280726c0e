"""Trackers beside MLflow: what they are told, once each, and what one that fails costs."""

import importlib.util
import json
import os
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from typing import ClassVar

import pytest
import simulated
from digests import digests
from helpers import free_port
from run_folders import write_study
from tracked import finished

from pcqc_base.errors import UserError
from pcqc_base.system.locks import hold
from pcqc_base.system.manifest import hold_folder, read_manifest
from pcqc_study import follow, trackers
from pcqc_study.graph import Jobs
from pcqc_study.mlflow_mirror import values
from pcqc_study.study_file import load_study


class Kept:
    """A tracker that keeps what it is told; one of a key goes on with what was told before."""

    told: ClassVar[dict] = {}  # key -> what `Told` says
    points: ClassVar[list] = []  # key, name, value, update
    closed: ClassVar[list] = []

    def __init__(self, told):
        self.key = told.key
        Kept.told[told.key] = told

    def log(self, numbers, update):
        Kept.points += [(self.key, name, value, update) for name, value in numbers.items()]

    score = log

    def close(self):
        Kept.closed.append(self.key)


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(Kept, "told", {})
    for name in ("points", "closed"):
        monkeypatch.setattr(Kept, name, [])
    monkeypatch.setitem(trackers.CLASSES, "wandb", Kept)
    monkeypatch.setenv("PCQC_REPORT_TO", "wandb")
    monkeypatch.setattr(os, "nice", lambda _: None)  # of the tests' own process
    return Kept


def key(study, method, run):
    return f"{method}-{run}-{Jobs(study).job('evaluate', method, run).path.name}"


def in_mlflow(study, method, run):
    """The points that MLflow gets of a run."""
    return sorted(point[:3] for point in values.metrics(finished(study, method, run)))


def of(kept, name):
    return sorted(point[1:] for point in kept.points if point[0] == name)


def test_a_tracker_is_told_once_what_mlflow_is_told(study, kept):
    follow.follow(study)
    names = {(m, r): key(study, m, r) for m in ("shared_sft", "grpo", "pcqc") for r in "ABC"}
    runs = {pair: name for pair, name in names.items() if pair[1] in study.methods[pair[0]].runs}
    assert set(runs.values()) == set(kept.told) == set(kept.closed)
    for (method, run), name in runs.items():
        assert of(kept, name) == in_mlflow(study, method, run)
    told = kept.told[name := runs["pcqc", "B"]]
    assert (told.title, told.method, told.study) == ("PCQC, run B", "pcqc", "clinic")
    assert told.settings["run"] == {
        "study": "clinic",
        "method": "pcqc",
        "run": "B",
        "seed": study.seed("B"),
        "git_commit": read_manifest(Jobs(study).job("train", "pcqc", "B").path)["git_commit"],
        "fingerprint": name.rpartition("-")[2],
    }
    assert told.settings["rl"]["learning_rate"] == 0.0002
    assert told.settings["method"]["beta"] == study.method("pcqc").beta
    assert "servers" not in told.settings

    before = list(kept.points)
    kept.told.clear()
    follow.follow(study)
    assert (kept.told, kept.points) == ({}, before)


def test_a_run_is_followed_while_it_trains_and_completed_once(study, kept):
    jobs = Jobs(study)
    job, name = jobs.job("train", "grpo", "A"), key(study, "grpo", "A")
    file, evaluated = job.path / "events.jsonl", jobs.job("evaluate", "grpo", "A").manifest
    whole, manifest = file.read_text(encoding="utf-8"), evaluated.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    evaluated.unlink()

    def updates():
        return [point[3] for point in kept.points if point[:2] == (name, "reward/mean")]

    reports = follow.Reports(study)
    with hold_folder(job):
        file.write_text("".join(lines[:2]) + lines[2][:20], encoding="utf-8")
        for _ in range(2):
            assert [*reports.send()] == []
            assert updates() == [1, 2]
        file.write_text("".join(lines[:3]), encoding="utf-8")
        assert [*reports.send(), *reports.close()] == []
        assert updates() == [1, 2, 3]
    reports.lock.close()
    assert name in kept.closed
    # Another goes on, and has what the run scored once it is evaluated.
    file.write_text(whole, encoding="utf-8")
    evaluated.write_text(manifest, encoding="utf-8")
    follow.follow(study)
    assert of(kept, name) == in_mlflow(study, "grpo", "A")


def test_a_tracker_that_is_missing_or_fails_is_a_line_and_costs_no_other(study, kept, monkeypatch):
    """No library is imported, no server asked; results stay as they are."""

    class Down(Kept):
        def __init__(self, told):
            raise RuntimeError("no answer of https://me:s3cret@tracker/?key=t0ken\n  traceback")

    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setitem(trackers.CLASSES, "wandb", trackers.Wandb)
    monkeypatch.setitem(trackers.CLASSES, "tensorboard", Down)
    monkeypatch.setitem(trackers.CLASSES, "trackio", Kept)
    monkeypatch.setenv("PCQC_REPORT_TO", "wandb, tensorboard trackio")
    before = digests(study.results)
    with pytest.raises(UserError) as caught:
        follow.follow(study)
    line = str(caught.value)
    assert "\n" not in line
    assert "wandb: not installed" in line
    assert "after `make trackers`, `pcqc follow clinic` sends what it lacks" in line
    assert "tensorboard: no answer of https://***@tracker/?key=***; the study goes on" in line
    assert key(study, "grpo", "A") in kept.closed
    after = {n: d for n, d in digests(study.results).items() if not str(n).startswith("trackers")}
    assert after == before


def test_one_of_two_that_follow_a_study_reports(study, kept):
    with hold(study.results / "trackers" / ".lock", "a test"):
        (problem,) = follow.Reports(study).send()
    assert problem.startswith("wandb: reporting the runs of 'clinic' is already under way")
    assert kept.points == []


def test_nothing_is_reported_where_no_tracker_is_named(study, kept, monkeypatch):
    monkeypatch.delenv("PCQC_REPORT_TO")
    before = digests(study.results)
    follow.follow(study)
    assert kept.told == {}
    assert digests(study.results) == before


# By their libraries, in a process of its own.


def needs(name):
    absent = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(absent, reason=f"{name} is not installed; `make trackers` adds it")


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Makes finished runs and reports them twice by `pcqc follow`; the study, and how it ended."""
    monkeypatch.chdir(tmp_path)

    def report(name, **variables):
        study = load_study(simulated.STUDY)
        write_study(study, ["grpo"], "A")  # no continuation study begins with it
        command = [sys.executable, "-m", "pcqc_study.cli", "follow", str(simulated.STUDY)]
        given = {"PCQC_REPORT_TO": name, "HOME": str(tmp_path), **variables}
        env = {n: v for n, v in os.environ.items() if not n.startswith("WANDB")} | given
        for _ in range(2):
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        return study, done

    return report


def near(points):
    """Points as MLflow gets them; TensorBoard keeps single precision."""
    return [(name, pytest.approx(value, rel=1e-6), update) for name, value, update in points]


@needs("tensorboard")
def test_tensorboard_reads_what_it_was_told(report):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    study, done = report("tensorboard")
    assert (done.returncode, done.stderr) == (0, "")
    folder = study.results / "trackers" / "tensorboard" / key(study, "grpo", "A")
    events = EventAccumulator(str(folder)).Reload()
    points = [
        (tag, event.value, event.step)
        for tag in events.Tags()["scalars"]
        for event in events.Scalars(tag)
    ]
    assert sorted(points) == near(in_mlflow(study, "grpo", "A"))
    (settings,) = events.Tensors("settings/text_summary")
    assert b"| rl.learning_rate | 0.0002 |" in settings.tensor_proto.string_val[0]


@needs("trackio")
def test_trackio_has_what_it_was_told(report, tmp_path):
    study, done = report("trackio", TRACKIO_DIR=str(tmp_path / "trackio"))
    assert (done.returncode, done.stdout) == (0, "")
    with closing(sqlite3.connect(tmp_path / "trackio" / "simulated.db")) as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
        configs = dict(database.execute("SELECT run_name, config FROM configs").fetchall())
    name = key(study, "grpo", "A")
    points = [
        (metric, value, step)
        for run, step, numbers in rows
        for metric, value in (json.loads(numbers) if run == name else {}).items()
    ]
    assert sorted(points) == in_mlflow(study, "grpo", "A")
    assert json.loads(configs[name])["run"]["seed"] == study.seed("A")


def records(path):
    """Records of a file of W&B: those of a log of LevelDB, each a protocol buffer."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:  # of a block
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", content[place : place + 7])
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last part
            yield Record.FromString(whole)
            whole = b""


@needs("wandb")
def test_wandb_has_what_it_was_told_in_its_offline_mode(report):
    study, done = report("wandb", WANDB_MODE="offline")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    name = key(study, "grpo", "A")
    (file,) = study.results.glob(f"trackers/wandb/wandb/offline-run-*/run-{name}.wandb")
    kept = list(records(file))
    (run,) = [record.run for record in kept if record.WhichOneof("record_type") == "run"]
    assert (run.run_id, run.project, run.run_group) == (name, "simulated", "grpo")
    assert (run.host, run.git.commit) == ("-", "")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["run"]["seed"] == study.seed("A")
    points, scores = [], {}
    for record in kept:
        numbers = {
            "".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in (*record.history.item, *record.summary.update)
        }
        if record.WhichOneof("record_type") == "history":
            step = record.history.step.num
            points += [(n, v, step) for n, v in numbers.items() if n[0] != "_"]
        else:
            scores |= numbers
    wanted = in_mlflow(study, "grpo", "A")
    groups = ("evaluation/", "further_updates/", "totals/")
    curves = [point for point in wanted if not point[0].startswith(groups)]
    assert sorted(points) == curves
    for score, value, _ in set(wanted) - set(curves):
        assert scores[score] == value


@needs("wandb")
@pytest.mark.parametrize("given", ["", "0" * 40])
def test_wandb_without_a_key_or_a_server_is_a_line(report, given):
    server = f"http://127.0.0.1:{free_port()}"
    study, done = report("wandb", WANDB_BASE_URL=server, WANDB_API_KEY=given)
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert last.startswith("pcqc: error: wandb: ")
    assert last.endswith(
        "; the study goes on, and later `pcqc follow simulated` sends what it lacks"
    )
    assert not given or given not in done.stderr
    assert not (study.results / "trackers" / "wandb.json").exists()
