"""The study's own run in MLflow: what it holds, and that it is brought up to date."""

from dataclasses import replace
from pathlib import Path

import pytest
from hand_made import finish_job, folder_of
from tracked import publish

from pcqc_base.errors import UserError
from pcqc_base.system.files import write_atomic
from pcqc_study.mlflow_mirror.open_store import artifact_paths, open_store


@pytest.fixture
def reported(ready):
    """The study with a report, a table and a page of transcripts."""
    for name in ("report.html", "tables/a.csv", "transcripts/data/list.js"):
        write_atomic(folder_of(ready, "report") / name, f"contents of {name}")
    finish_job(ready, "report")
    return ready


def own_runs(study):
    store = open_store(study)
    return store.client.search_runs([store.experiment.experiment_id], "tags.stage = 'study'")


def artifacts(study) -> set[str]:
    (run,) = own_runs(study)
    return set(artifact_paths(open_store(study).client, run.info.run_id))


def test_what_a_study_shows_is_in_one_run(reported):
    run_id = publish(reported)
    (run,) = own_runs(reported)
    assert run_id == run.info.run_id
    assert run.info.status == "FINISHED"
    assert artifacts(reported) == {"report.html", "tables/a.csv", "transcripts/data/list.js"}
    assert "`results/clinic/transcripts/index.html`" in run.data.tags["mlflow.note.content"]
    assert run.data.tags["fingerprint"] == folder_of(reported, "report").name


def test_a_report_of_another_fingerprint_replaces_the_old_one_in_the_same_run(reported):
    first = publish(reported)
    other = replace(reported, title="Another clinic")
    write_atomic(folder_of(other, "report") / "report.html", "another report, and a longer one")
    finish_job(other, "report")
    assert publish(other) != first  # it has fewer files
    place = Path(open_store(reported).experiment.artifact_location) / own_runs(other)[0].info.run_id
    assert (place / "artifacts/report.html").read_text() == "another report, and a longer one"


def test_without_a_report_nothing_is_published(ready):
    with pytest.raises(UserError, match=r"report/\w{8}: is not finished"):
        publish(ready)
    assert not own_runs(ready)
