"""`also_evaluate` in the small study, from checkpoints to MLflow: never among the selected ones."""

import sqlite3
from contextlib import closing

import pandas as pd
from workplace import STUDY

from pcqc_base.system.files import read_json
from pcqc_study.study_file import load_study

NAMED = {"grpo": [2], "pcqc": [2, 4], "same_state_q1": [4]}
BENCHMARKS = list(load_study(STUDY).benchmarks)


def evaluation(mini, method, run):
    return read_json(mini.results / "evaluation" / method / run / "latest/manifest.json")


def test_the_checkpoints_of_further_updates_are_evaluated_beside_the_selected_one(mini):
    study = load_study(STUDY)
    assert {name: list(updates) for name, updates in study.also_evaluate.items()} == NAMED
    for method in study.methods:
        for run in study.method(method).runs if not study.method(method).on_demand else ():
            evaluated = evaluation(mini, method, run)
            further = evaluated.get("further_updates", {})
            assert [int(update) for update in further] == NAMED.get(method, [])
            if not further:
                continue
            trained = read_json(mini.results / "runs" / method / run / "latest/manifest.json")
            digests = {str(c["update"]): c["digest"] for c in trained["checkpoints"]}
            assert {u: entry["checkpoint"] for u, entry in further.items()} == {
                update: digests[update] for update in further
            }
            if again := further.get(str(evaluated["update"])):  # the selected weights a second time
                values = ("accuracy", "turns", "actor_tokens")
                for name in BENCHMARKS:
                    assert [again["benchmarks"][name][v] for v in values] == [
                        evaluated["benchmarks"][name][v] for v in values
                    ]


def test_predictions_of_further_updates_are_collected_apart(mini):
    keys = ["method", "run", "update"]
    selected = pd.read_parquet(mini.results / "collected/latest/predictions.parquet")
    chosen = {
        (r["method"], r["run"]): r for r in read_json(mini.results / "collected/latest/runs.json")
    }
    assert {tuple(row) for row in selected[keys].drop_duplicates().values} == {
        (*key, entry["evaluation"]["update"]) for key, entry in chosen.items()
    }
    further = pd.read_parquet(mini.results / "collected/latest/further_updates.parquet")
    runs = load_study(STUDY).methods
    expected = {
        (m, run, u) for m, updates in NAMED.items() for run in runs[m].runs for u in updates
    }
    assert {tuple(row) for row in further[keys].drop_duplicates().values} == expected
    assert set(further.groupby(keys)["benchmark"].nunique()) == {len(BENCHMARKS)}


def shown(accuracy: float) -> float:
    """As MLflow has it: four digits."""
    return float(f"{accuracy:.4g}")


def test_mlflow_labels_them_as_further_updates(mini):
    with closing(sqlite3.connect(mini.folder / "results" / "mlflow.db")) as store:
        points = store.execute(
            "SELECT metrics.key, metrics.step, metrics.value FROM metrics"
            " JOIN tags method ON method.run_uuid = metrics.run_uuid AND method.key = 'method'"
            " JOIN tags run ON run.run_uuid = metrics.run_uuid AND run.key = 'run'"
            " WHERE metrics.key LIKE '%/clinic_dev/accuracy'"
            " AND method.value = 'pcqc' AND run.value = 'A'"
        ).fetchall()
    entry = evaluation(mini, "pcqc", "A")
    values = {int(u): e["benchmarks"] for u, e in entry["further_updates"].items()}
    expected = {
        ("further_updates/clinic_dev/accuracy", update, shown(made["clinic_dev"]["accuracy"]))
        for update, made in values.items()
    }
    selected = entry["benchmarks"]["clinic_dev"]["accuracy"]
    expected |= {("evaluation/clinic_dev/accuracy", entry["update"], shown(selected))}
    assert set(points) == expected
