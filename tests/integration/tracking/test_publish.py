"""The study's own run in MLflow: what it holds, and that it is brought up to date."""

from pathlib import Path

import pytest

from pcqc.errors import UserError
from pcqc.system.files import read_json, sha256_file, write_atomic
from pcqc.tracking.finished import published
from pcqc.tracking.publish import publish
from pcqc.tracking.store import artifact_paths, open_store


@pytest.fixture
def reported(ready):
    """The study with a report, a table and a page of transcripts."""
    for name in ("report.html", "tables/a.csv", "transcripts/data/list.js"):
        write_atomic(ready.results / name, f"contents of {name}")
    return ready


def own_runs(study):
    store = open_store(study)
    return store.client.search_runs([store.experiment.experiment_id], "tags.stage = 'study'")


def artifacts(study) -> set[str]:
    (run,) = own_runs(study)
    return set(artifact_paths(open_store(study).client, run.info.run_id))


def test_what_a_study_found_is_in_one_run(reported):
    record = read_json(publish(reported))
    (run,) = own_runs(reported)
    assert record["run_id"] == run.info.run_id
    assert run.info.status == "FINISHED"
    assert artifacts(reported) == set(record["artifacts"])
    assert record["artifacts"]["tables/a.csv"] == sha256_file(reported.results / "tables/a.csv")
    assert "`results/clinic/transcripts/index.html`" in run.data.tags["mlflow.note.content"]


def test_a_new_report_replaces_the_old_one_in_the_same_run(reported):
    first = read_json(publish(reported))
    write_atomic(reported.results / "report.html", "another report, and a longer one")
    assert read_json(publish(reported))["run_id"] == first["run_id"]
    place = Path(open_store(reported).experiment.artifact_location) / first["run_id"]
    assert (place / "artifacts/report.html").read_text() == "another report, and a longer one"


def test_without_a_report_nothing_is_published(ready):
    with pytest.raises(UserError, match=r"report.html: missing; run `pcqc report clinic`"):
        publish(ready)
    assert not published(ready).exists()


def test_what_is_no_longer_there_leaves_mlflow_too(reported):
    first = read_json(publish(reported))["run_id"]
    (reported.results / "tables/a.csv").unlink()
    record = read_json(publish(reported))
    assert artifacts(reported) == {"report.html", "transcripts/data/list.js"}
    (run,) = own_runs(reported)
    assert record["run_id"] == run.info.run_id != first
