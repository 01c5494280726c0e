import dataclasses
import re
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from html import unescape
from pathlib import Path

import pytest
from digests import digests
from helpers import changed
from markdown_it import MarkdownIt
from run_folders import write_run
from small_runs import killed_at
from tracked import finished, ids, mirror

from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json, sha256_file, write_json
from pcqc_study.graph import latest
from pcqc_study.mlflow_mirror import notes, page, prepare, write_runs
from pcqc_study.mlflow_mirror.open_store import open_store
from pcqc_study.mlflow_mirror.values import metrics

NOON = 1769860800_000  # 2026-01-31 12:00 UTC, in milliseconds


def experiment_runs(study):
    store = open_store(study)
    return store.client.search_runs([store.experiment.experiment_id])


def of_letter(study, letter):
    return [run for run in experiment_runs(study) if run.data.tags.get("run") == letter]


def query(sql, *values):
    with closing(sqlite3.connect("results/mlflow.db")) as database:
        return database.execute(sql, values).fetchall()


def shape(study):
    """All that the store holds, without the identifiers and clock times that MLflow makes."""
    runs = {}
    for run in experiment_runs(study):
        key = run.info.run_id
        folder = open_store(study).experiment.artifact_location + f"/{key}/artifacts"
        runs[run.info.run_name] = {
            "status": run.info.status,
            "parameters": run.data.params,
            "points": []
            if run.data.tags["stage"] == "method"
            else query(
                "SELECT key, value, step, timestamp - start_time FROM metrics "
                "JOIN runs USING (run_uuid) WHERE run_uuid = ? ORDER BY key, step, timestamp",
                key,
            ),
            "tags": sorted(set(run.data.tags)),
            "artifacts": digests(Path(folder)),
        }
    return runs


def test_everything_of_a_run_is_mirrored(ready):
    written = read_json(mirror(ready, "pcqc"))
    parent, *_ = [r for r in experiment_runs(ready) if r.data.tags["stage"] == "method"]
    assert list(written) == ["A", "B", "C"]

    (run,) = of_letter(ready, "B")
    assert run.info.run_id == ids(ready, "pcqc")["B"]
    assert run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time) == (NOON, NOON + 90_000)
    assert (parent.info.start_time, parent.info.end_time) == (NOON, NOON + 90_000)
    link = "results/clinic/transcripts/index.html#method=pcqc&run=B"
    assert run.data.tags["transcripts"] == link
    assert f"`{link}`" in run.data.tags["mlflow.note.content"]
    tags = run.data.tags
    assert tags["mlflow.parentRunId"] == parent.info.run_id
    assert (tags["method"], tags["seed"], tags["git_commit"][:4]) == ("pcqc", "2", "0123")
    assert (tags["machine.host"], tags["machine.torch"]) == ("ward", "2")
    assert tags["fingerprint"]
    assert (tags["current"], tags["selected_update"]) == ("yes", "4")
    address = f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts/run.html"
    for described in (run, parent):
        note = described.data.tags["mlflow.note.content"]
        assert f"({address}?workflowType=machine_learning)" in note
    assert run.data.params["method.beta"] == "1.0"
    assert "method.tree" not in run.data.params
    assert run.data.metrics["checkpoints/accuracy"] == 0.7
    assert run.data.metrics["evaluation/clinic_wide/accuracy"] == 0.6667
    assert run.data.metrics["evaluation/average/accuracy"] == 0.6667
    assert run.data.metrics["evaluation/average/turns"] == 1

    history = open_store(ready).client.get_metric_history(run.info.run_id, "measure/1")
    assert [(p.step, p.timestamp - run.info.start_time) for p in history] == [
        (update, 10_000 * update) for update in (1, 2, 3, 4)
    ]

    # Artifacts are the files, and no checkpoints.
    location = open_store(ready).experiment.artifact_location
    mirrored = digests(Path(location, run.info.run_id, "artifacts"))
    del mirrored["run.html"]
    assert mirrored == written["B"]["artifacts"]
    trained = ready.results / "runs" / "pcqc" / "B" / "latest"
    assert mirrored["training/events.jsonl"] == sha256_file(trained / "events.jsonl")
    own = Path(location, run.info.run_id, "artifacts", "training/events.jsonl")
    assert own.samefile(trained / "events.jsonl")  # not a second copy
    wanted = {"training/candidate_groups.jsonl", "training/consultations.jsonl"}
    wanted |= {"training/manifest.json", "evaluation/selection.json"}
    wanted |= {"evaluation/clinic_dev.parquet", "evaluation/clinic_dev.jsonl"}
    assert wanted <= set(mirrored)
    assert not [name for name in mirrored if "checkpoints" in name]

    # A second mirror writes nothing.
    kept = ("results/mlflow.db", "results/clinic/tracking/pcqc/latest/record.json")
    before = [sha256_file(path) for path in kept]
    mirror(ready, "pcqc")
    assert [sha256_file(path) for path in kept] == before


def test_a_run_with_a_damaged_file_is_not_mirrored(ready):
    path = ready.results / "evaluation/grpo/B/latest/clinic_dev.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"clinic_dev\.parquet: altered since it was written"):
        mirror(ready, "grpo")
    assert experiment_runs(ready) == []


def test_a_parent_has_settings_and_the_mean_curves_of_its_runs_from_update_0(ready):
    mirror(ready, "pcqc", ["A"])
    mirror(ready, "pcqc", ["A", "B"])
    runs = experiment_runs(ready)
    (parent,) = [run for run in runs if run.data.tags["stage"] == "method"]
    assert {run.data.tags.get("mlflow.parentRunId", parent.info.run_id) for run in runs} == {
        parent.info.run_id
    }
    assert parent.data.params["method.beta"] == "1.0"
    tags = parent.data.tags
    assert (tags["current"], tags["selected_update"], tags["git_commit"][:4]) == (
        *("yes", "4, 4"), "0123",
    )  # fmt: skip
    curve = {
        name: [(p.step, p.value) for p in open_store(ready).client.get_metric_history(*key)]
        for name in ("checkpoints/accuracy", "reward/mean")
        if (key := (parent.info.run_id, name))
    }
    # Shared SFT has two of three right; runs A and B have (update + 1) / 8 and (update + 2) / 8.
    assert curve["checkpoints/accuracy"] == [(0, 0.6667), (4, 0.7)]
    assert curve["reward/mean"] == [(1, 0.3125), (2, 0.4375), (3, 0.5625), (4, 0.6875)]


def test_the_page_of_a_run_has_its_settings_and_every_compared_question(ready):
    text = page.of_run(finished(ready, "pcqc", "B"))
    assert "0123" in text
    assert "the checkpoint of update 4 was selected" in text
    assert "0: 66.7 %, 4: 70.0 %." in text
    for update in (1, 2, 3, 4):
        opened = " open" * (update == 4)  # the selected one
        shown = f"<details{opened}><summary>Update {update}: 1;\nshare of credit from near ties "
        assert f"{shown}(spread below 0.01):\n0 %<" in text
    assert re.search(r"[A-D]\. \w+; .*<b>[A-D]\. [^<]+ \(right\)</b>", text)  # options
    assert ">RL update</text>" in text
    assert '<td>Any fever?<td>Yes.\n<td class="n">0.620\n' in text
    assert "<td><code>method.beta</code><td>none<td>1.0" in text
    assert "<td><code>method.updates</code><td>40<td>60" in text
    assert "<code>rl.clip</code>" not in text  # of the study, so the same


def test_a_method_without_training_shows_its_evaluation(ready):
    written = read_json(mirror(ready, "shared_sft"))
    assert list(written) == ["A"]
    (run,) = of_letter(ready, "A")
    assert run.data.tags["stage"] == "evaluation"


def test_curves_begin_at_shared_sft_once_that_is_evaluated(ready):
    assert finished(ready, "grpo", "A").at_start["accuracy"] > 0
    (latest(ready, "evaluate", "shared_sft", "A") / "manifest.json").unlink()
    assert finished(ready, "grpo", "A").at_start == {}


def test_a_changed_run_supersedes_the_old_one_which_stays(ready):
    mirror(ready, "grpo")
    old = ids(ready, "grpo")
    edited = changed(ready, "methods.grpo.updates", 5)
    write_run(edited, "grpo", "B", updates=5)
    mirror(edited, "grpo", ["B"])
    new = ids(edited, "grpo")
    assert new["B"] != old["B"]
    tags = {run.info.run_id: run.data.tags for run in of_letter(ready, "B")}
    assert tags[old["B"]]["superseded_by"] == new["B"]
    assert "superseded_by" not in tags[new["B"]]
    assert [tags[runs["B"]]["current"] for runs in (old, new)] == ["no", "yes"]
    assert names(ready) == {
        old["B"]: "superseded: GRPO, run B",
        new["B"]: "GRPO, run B",
    }

    write_run(ready, "grpo", "B")
    mirror(ready, "grpo")
    assert ids(ready, "grpo") == old
    tags = {run.info.run_id: run.data.tags for run in of_letter(ready, "B")}
    assert tags[new["B"]]["superseded_by"] == old["B"]
    assert "superseded_by" not in tags[old["B"]]
    assert [tags[runs["B"]]["current"] for runs in (old, new)] == ["yes", "no"]
    assert names(ready)[old["B"]] == "GRPO, run B"


def names(study):
    return {run.info.run_id: run.info.run_name for run in of_letter(study, "B")}


def test_a_mirror_killed_again_and_again_is_completed_without_duplicates(ready):
    empty, database = Path("empty.db"), Path("results/mlflow.db")
    shutil.copy(database, empty)
    mirror(ready, "pcqc", ["A", "B"])
    whole = shape(ready)
    shutil.copy(empty, database)
    shutil.rmtree("results/mlartifacts")
    from mlflow import MlflowClient

    moments = [(MlflowClient, n) for n in ("create_run", "log_text", "set_terminated")]
    for place, name in [*moments[:1], (write_runs, "log_file"), *moments[1:]]:
        with killed_at(place, name, after=True):
            mirror(ready, "pcqc", ["A", "B"])
    mirror(ready, "pcqc", ["A", "B"])
    assert shape(ready) == whole


def test_the_selected_checkpoint_is_a_registered_model_that_loads_by_its_name(ready, monkeypatch):
    for run in "AB":
        folder = ready.results / "runs" / "pcqc" / run / "latest"
        write_json(folder / "checkpoints" / "000004" / "config.json", {"run": run})
    mirror(ready, "pcqc")
    runs = ids(ready, "pcqc")
    client = open_store(ready).client
    versions = {run: client.get_model_version_by_alias("clinic-pcqc", run) for run in "AB"}
    assert {run: version.run_id for run, version in versions.items()} == {
        run: runs[run] for run in "AB"
    }
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///results/mlflow.db")
    from mlflow.artifacts import download_artifacts

    place = download_artifacts("models:/clinic-pcqc@B")
    assert read_json(Path(place) / "config.json") == {"run": "B"}
    command = r"vllm serve results/clinic/runs/pcqc/B/\w{8}/checkpoints/000004"
    assert re.search(command, versions["B"].description)
    mirror(ready, "pcqc")
    assert len(client.search_model_versions("name = 'clinic-pcqc'")) == 2


HOSTILE = "<img src=http://far/x.png>![x](http://far/y.png)<iframe src=x> `a` **b** &lt;"


def test_a_title_is_text_on_every_page_whatever_it_holds(ready):
    """MLflow renders descriptions as Markdown with HTML: an image of a title would be loaded."""
    hostile = partial(dataclasses.replace, title=HOSTILE)
    ready = hostile(
        ready,
        methods={name: hostile(method) for name, method in ready.methods.items()},
        benchmarks={name: hostile(benchmark) for name, benchmark in ready.benchmarks.items()},
    )
    weights = latest(ready, "train", "pcqc", "A") / "checkpoints" / "000004"
    weights.mkdir(parents=True)
    mirror(ready, "pcqc")
    store = open_store(ready)
    (model,) = store.client.search_registered_models()
    (version,) = store.client.search_model_versions("run_id != ''")
    pages = [
        prepare.describe_study(ready).tags[notes.NOTE],
        *(run.data.tags[notes.NOTE] for run in experiment_runs(ready)),
        notes.of_report(ready),
        *(model.description, version.description),
    ]
    for text in pages:
        html = MarkdownIt("commonmark", {"html": True}).render(text)
        assert not re.search(r"<(img|iframe)", html)
        assert HOSTILE in unescape(re.sub(r"<[^>]*>", "", html))


def test_success_of_a_continuation_study_is_a_metric_of_its_update(ready):
    run = finished(ready, "pcqc", "A")
    success = {"uniform": 0.5, "executed": 0.6, "highest_utility": 0.7}
    run.__dict__["continued"] = {"success": success, "update": 3}
    points = {name: (value, update) for name, value, update, _ in metrics(run)}
    for rule, value in success.items():
        assert points[f"continuation/{rule}"] == (value, 3)
