"""The continuation study goes through MLflow with its run."""

import pytest
from hand_made import finish_job, folder_of
from tracked import collect, mirror

from pcqc.system.files import read_json, write_atomic
from pcqc.tracking.mlflow_store import open_store

TEXTS = {
    "candidates.parquet": "candidates",
    "continuations.parquet": "continuations",
    "grounding.csv": "case_id,candidate,eligible\n",
}


@pytest.fixture
def continued(ready):
    """The study's methods with the continuation study of PCQC run A, mirrored."""
    for name in set(ready.methods) - {"shared_sft", "pcqc"}:
        del ready.methods[name]
    for name, text in TEXTS.items():
        kind = "grounding" if name == "grounding.csv" else "continuation"
        write_atomic(folder_of(ready, kind, "pcqc", "A") / name, text)
    entries = {
        "benchmark": "clinic_dev",
        "update": 4,
        "checkpoint": "checkpoints/000004",
        "success": {"uniform": 0.5, "executed": 0.25, "highest_utility": 0.75},
    }
    finish_job(ready, "continuation", "pcqc", "A", entries=entries)
    finish_job(ready, "grounding", "pcqc", "A")
    for method in ready.methods:
        mirror(ready, method)
    return ready


def test_files_and_figures_are_mirrored_and_collected(continued):
    folder = collect(continued) / "continuation"
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == {
        f"pcqc/A/{name}" for name in (*TEXTS, "manifest.json")
    }
    records = {(r["method"], r["run"]): r for r in read_json(folder.parent / "runs.json")}
    assert records["pcqc", "A"]["continuation"]["success"]["executed"] == 0.25
    assert records["pcqc", "B"]["continuation"] is None
    run_id = records["pcqc", "A"]["run_id"]
    metrics = open_store(continued).client.get_run(run_id).data.metrics
    assert metrics["continuation/highest_utility"] == 0.75
