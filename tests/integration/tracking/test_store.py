import json
import multiprocessing
import re
import shutil
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from damage import follow
from helpers import free_port
from mlflow.entities import ViewType
from run_folders import make_study, write_study
from tracked import ids, mirror, read_record

from pcqc_base.errors import UserError
from pcqc_base.settings.tracking import Tracking
from pcqc_study.check_results import prepare_to_run
from pcqc_study.graph import Jobs, latest
from pcqc_study.mlflow_mirror.open_store import artifact_paths, is_lost, masked, open_store
from pcqc_study.mlflow_mirror.prepare import VIEW, prepare
from pcqc_study.run_job import run_job
from pcqc_study.status import job_states

MOVED = "name LIKE 'clinic, moved %'"


def marked(study, method) -> bool:
    """Whether the workflow would leave a method's mirror as it is."""
    prepare_to_run(study)
    return Jobs(study).job("mirror", method).marker.exists()


def together(target, *arguments):
    """Call `target(study, argument)` for each argument in a process of its own, all at once."""
    context = multiprocessing.get_context("forkserver")
    # Seconds of imports are paid once, in the server that the processes are forked from.
    context.set_forkserver_preload(["mlflow.store.tracking.sqlalchemy_store", "run_folders"])
    started = [context.Process(target=target, args=(make_study(), a)) for a in arguments]
    for process in started:
        process.start()
    for process in started:
        process.join(300)
    return [process.exitcode for process in started]


def prepare_once(study, _):
    prepare(study)


def mirror_one(study, method):
    mirror(study, method, "A")


@pytest.mark.slow  # many processes; one that is killed is repeated below
def test_concurrent_preparations_and_mirrors_lose_nothing(study):
    methods = ["grpo", "pcqc", "terminal_only"]
    write_study(study, methods, runs="A", updates=20)
    assert together(prepare_once, 1, 2, 3) == [0, 0, 0]
    assert together(mirror_one, *methods) == [0, 0, 0]
    store = open_store(study)
    runs = store.client.search_runs([store.experiment.experiment_id])
    assert len(runs) == 6
    assert {run.info.status for run in runs} == {"FINISHED"}
    for run in runs:
        if run.data.tags.get("run"):
            assert len(store.client.get_metric_history(run.info.run_id, "measure/2")) == 20
    names = {run.info.run_name for run in runs if "run" not in run.data.tags}
    assert names == {"GRPO", "PCQC", "Terminal-only"}


def test_a_preparation_killed_in_the_migration_is_repeated(study):
    Path("results/.mlflow.db.new").write_bytes(b"half a database")
    prepare(study)
    assert mirror(study, "shared_sft").is_file()


@pytest.mark.parametrize("damage", ["cut short", "overwritten"])
def test_a_damaged_database_is_one_line_whose_remedy_makes_it_anew(ready, damage):
    """It once said to run the workflow again, which then said the same, for ever."""
    run_job(ready, "mirror", "shared_sft")
    path = Path("results/mlflow.db")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut short" else b"no database" * 100)
    damaged = make_study(Tracking(timeout_seconds=18))  # MLflow keeps a store open by its address
    told = r"results/mlflow\.db did not answer: .*damaged"
    for call in (lambda: prepare(damaged), lambda: mirror(damaged, "pcqc")):
        with pytest.raises(UserError, match=told) as error:
            call()
    assert follow(str(error.value), Path(), Path("aside")) == path
    assert not marked(ready, "shared_sft")
    again = make_study(Tracking(timeout_seconds=17))
    run_job(again, "mirror", "shared_sft")
    assert marked(again, "shared_sft")
    assert read_record(again, "shared_sft")


def test_a_restored_experiment_has_one_current_run_of_each_letter(ready):
    """Restoring it brings back the runs too that somebody had deleted before."""
    mirror(ready, "shared_sft")
    before = ids(ready, "shared_sft")
    client, experiment = (store := open_store(ready)).client, store.experiment.experiment_id
    client.delete_run(before["A"])
    mirror(ready, "shared_sft")
    assert ids(ready, "shared_sft") != before
    client.delete_experiment(experiment)
    assert not marked(ready, "shared_sft")
    with pytest.raises(UserError, match=f"mlflow experiments restore -x {experiment}` and run"):
        prepare(ready)
    client.restore_experiment(experiment)
    run_job(ready, "mirror", "shared_sft")  # its marker is gone: the loss was seen
    current = client.search_runs([experiment], "tags.run = 'A' and tags.current = 'yes'")
    assert len(current) == 1


def test_a_locked_database_fails_within_the_time_out(ready):
    hasty = make_study(Tracking(timeout_seconds=1))
    with closing(sqlite3.connect("results/mlflow.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        with pytest.raises(UserError, match="did not answer: database is locked; run the workflow"):
            mirror(hasty, "pcqc")
        assert time.monotonic() - start < 10  # the default is 120
    mirror(hasty, "shared_sft")


def listed(study, model="clinic-pcqc"):
    """Names of the experiments that the interface lists, and the versions of a model by run."""
    client = open_store(study).client
    experiments = {experiment.name for experiment in client.search_experiments()}
    versions = client.search_model_versions(f"name = '{model}'")
    return experiments - {"Default"}, sorted(version.tags["run"] for version in versions)


@pytest.mark.slow
def test_a_folder_that_is_moved_and_moved_back_has_one_experiment_and_one_version_a_run(
    ready, tmp_path, monkeypatch
):
    for run in ready.method("pcqc").runs:
        (latest(ready, "train", "pcqc", run) / "checkpoints" / "000004").mkdir(parents=True)
    run_job(ready, "mirror", "pcqc")
    before, once = ids(ready, "pcqc"), listed(ready)
    assert once == ({"clinic"}, ["A", "B", "C"])
    for number in range(2):
        elsewhere = tmp_path / f"elsewhere{number}"
        shutil.move("results", elsewhere / "results")
        monkeypatch.chdir(elsewhere)
        assert not marked(ready, "pcqc")
        run_job(ready, "mirror", "pcqc")
        store = open_store(ready)
        home = elsewhere / "results" / "mlartifacts" / "clinic"
        assert store.experiment.artifact_location == str(home)
        for letter, run in ids(ready, "pcqc").items():
            assert store.client.get_run(run).info.artifact_uri.startswith(f"{home}/")
            version = store.client.get_model_version_by_alias("clinic-pcqc", letter)
            assert version.run_id == run
            assert Path(version.source.removeprefix("file://")).is_dir()
        assert listed(ready) == once
    # Those of the first place can be restored, under a name that says what they are.
    deleted = store.client.search_experiments(ViewType.DELETED_ONLY, filter_string=MOVED)
    kept = store.client.search_runs([e.experiment_id for e in deleted], run_view_type=ViewType.ALL)
    assert before["A"] in {run.info.run_id for run in kept}


def test_the_list_of_runs_is_shared_with_a_column_that_runs_and_methods_have(ready):
    """By MLflow's own shared views; `make ui` prints the link that opens it."""
    mirror(ready, "shared_sft")
    store = open_store(ready)
    (column,) = json.loads(store.experiment.tags[VIEW])["selectedColumns"]
    name = column.removeprefix("metrics.`").removesuffix("`")
    runs = store.client.search_runs([store.experiment.experiment_id])
    assert [0 <= run.data.metrics[name] <= 1 for run in runs] == [True, True]


def test_a_store_that_is_lost_and_runs_that_are_mirrored_again_are_there_once(ready):
    for run in "AB":
        (latest(ready, "train", "pcqc", run) / "checkpoints" / "000004").mkdir(parents=True)
    mirror(ready, "pcqc")
    once, client = listed(ready), open_store(ready).client
    client.delete_run(ids(ready, "pcqc")["A"])  # and is mirrored under another id
    mirror(ready, "pcqc")
    mirror(ready, "pcqc")
    assert listed(ready) == once == ({"clinic"}, ["A", "B"])


def test_runs_of_a_database_lost_to_another_study_are_mirrored_again(ready):
    run_job(ready, "mirror", "grpo")
    assert (marked(ready, "grpo"), is_lost(ready)) == (True, False)
    Path("results/mlflow.db").unlink()
    prepare(make_study(Tracking(timeout_seconds=19), name="another"))
    assert not marked(ready, "grpo")
    # MLflow keeps a store open by its address; another address is as good as a new process.
    again = make_study(Tracking(timeout_seconds=19))
    run_job(again, "mirror", "grpo")
    assert (marked(again, "grpo"), is_lost(again)) == (True, False)
    for letter, entry in read_record(again, "grpo").items():
        stored = artifact_paths(open_store(again).client, ids(again, "grpo")[letter])
        assert set(stored) == {*entry["artifacts"], "run.html"}


def test_a_new_database_that_has_some_runs_of_the_study_alone_is_given_the_others(ready):
    """As after one was deleted while a workflow ran: the next mirror makes another."""
    run_job(ready, "mirror", "grpo")
    Path("results/mlflow.db").unlink()
    again = make_study(Tracking(timeout_seconds=19))
    run_job(again, "mirror", "pcqc")
    assert not is_lost(again)
    assert not marked(again, "grpo")  # and pcqc's runs are found, and not written twice
    for method in ("grpo", "pcqc"):
        run_job(again, "mirror", method)
    assert marked(again, "grpo")
    for method in ("grpo", "pcqc"):
        assert ids(again, method).keys() == read_record(again, method).keys()
    stored = open_store(again).client.search_runs([open_store(again).experiment.experiment_id])
    contents = [run.data.tags["contents"] for run in stored]
    assert len(contents) == len(set(contents))


def test_an_empty_file_is_a_database_that_is_lost(ready):
    run_job(ready, "mirror", "grpo")
    Path("results/mlflow.db").write_bytes(b"")
    assert not marked(ready, "grpo")


def test_a_file_that_is_no_database_is_not_taken_for_a_lost_one(ready):
    run_job(ready, "mirror", "shared_sft")
    Path("results/mlflow.db").write_text("not a database" * 100)
    assert marked(ready, "shared_sft")


@pytest.mark.slow
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_deleted_experiment_is_told_and_comes_back_by_the_command_of_the_line(
    ready, monkeypatch, by_environment
):
    """Nothing else is made: the command reaches the study's store, wherever that is named."""
    run_job(ready, "mirror", "grpo")
    if by_environment:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", ready.tracking.uri)
    client, experiment = open_store(ready).client, open_store(ready).experiment
    done = {state.job.name: state for state in job_states(ready)}["mirror grpo"]
    assert done.state == "done"
    client.delete_experiment(experiment.experiment_id)
    lost = {state.job.name: state for state in job_states(ready)}["mirror grpo"]
    assert (lost.state, lost.reason) == ("stale", "MLflow's store lacks the study's runs")
    assert not marked(ready, "grpo")
    before = {path.name for path in Path().iterdir()}
    again = make_study(Tracking(timeout_seconds=19))
    with pytest.raises(UserError, match="was deleted; type `") as error:
        prepare(again)
    command = re.search("`(.+)` and run the workflow again$", str(error.value))[1]
    assert ("MLFLOW_TRACKING_URI" in command) != by_environment
    restored = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert restored.returncode == 0, restored.stderr
    assert {path.name for path in Path().iterdir()} == before
    prepare(again)
    assert run_job(again, "mirror", "grpo").manifest.exists()
    assert {s.job.name: s.state for s in job_states(again)}["mirror grpo"] == "done"


@pytest.fixture
def silent():
    """The address of a server that takes requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://user:secret@127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_fails_within_the_time_out(study, silent, monkeypatch):
    for name in ("TIMEOUT", "MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", silent)
    hasty = make_study(Tracking(timeout_seconds=2))
    start = time.monotonic()
    with pytest.raises(UserError) as caught:
        mirror(hasty, "pcqc")
    assert time.monotonic() - start < 20  # MLflow's own is 120, seven times
    message = str(caught.value)
    assert "did not answer" in message
    assert "run the workflow again" in message
    assert "secret" not in message
    assert "\n" not in message


def test_nobody_listening_is_one_line(study, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UserError, match=r"MLflow at http://127\.0\.0\.1:\d+ did not answer"):
        mirror(study, "pcqc")


def test_an_address_is_shown_without_its_secrets():
    assert masked("https://me:secret@host/api?token=abc&key=def failed") == (
        "https://***@host/api?token=***&key=*** failed"
    )
