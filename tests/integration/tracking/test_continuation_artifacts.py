"""The continuation study goes through MLflow with its run."""

import pytest
from tracked import collect, mirror

from pcqc.study.job_outputs import job_output
from pcqc.system.files import read_json, sha256_file, write_atomic, write_json
from pcqc.tracking.store import open_store

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
    folder = ready.results / "continuation" / "pcqc" / "A"
    for name, text in TEXTS.items():
        write_atomic(folder / name, text)
    evaluation = read_json(ready.results / "evaluation" / "pcqc" / "A" / "manifest.json")
    manifest = {
        "benchmark": "clinic_dev",
        "update": 4,
        "checkpoint": evaluation["checkpoint"],
        "success": {"uniform": 0.5, "executed": 0.25, "highest_utility": 0.75},
        "files": {n: sha256_file(folder / n) for n in TEXTS if n.endswith("parquet")},
    }
    write_json(folder / "manifest.json", manifest)
    job_output(ready, "continuation", "pcqc", "A").finish([*manifest["files"], "manifest.json"])
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
