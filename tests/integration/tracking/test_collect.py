import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest
from digests import digests
from tracked import collect, ids, mirror

from pcqc_base.errors import UserError
from pcqc_base.system.manifest import MANIFEST, MARKER, STATE
from pcqc_study.graph import latest
from pcqc_study.mlflow_mirror.open_store import open_store
from pcqc_study.run_job import run_job

METHODS = ["shared_sft", "pcqc"]


@pytest.fixture
def mirrored(ready):
    """The study with two methods, all mirrored."""
    for name in set(ready.methods) - set(METHODS):
        ready.methods[name] = dataclasses.replace(ready.methods[name], runs=())
    for method in METHODS:
        mirror(ready, method)
    return ready


def stored(study, method, run, artifact):
    """Where the local store keeps an artifact."""
    return Path("results/mlartifacts/clinic") / ids(study, method)[run] / "artifacts" / artifact


def tree(folder):
    """Name -> SHA-256 of what was collected; a manifest says when it was written."""
    left_out = (MANIFEST, MARKER, f"{STATE}/")
    return {n: digest for n, digest in digests(folder).items() if not n.startswith(left_out)}


@pytest.mark.slow
def test_the_analysis_gets_what_the_runs_wrote(mirrored):
    collected = collect(mirrored)
    table = pyarrow.parquet.read_table(collected / "predictions.parquet")
    assert len(table) == (1 + 3) * 2 * 3
    assert table.column("method").to_pylist()[:7] == ["shared_sft"] * 6 + ["pcqc"]
    assert table.schema.field("correct").type == "bool"
    updates = pyarrow.parquet.read_table(collected / "updates.parquet").to_pylist()
    assert len(updates) == 3 * 5
    assert updates[4]["kind"] == "validation"
    assert (updates[4]["accuracy"], updates[4]["measure/1"]) == (0.7, None)
    validations = pyarrow.parquet.read_table(collected / "validations.parquet")
    assert set(validations.column("benchmark").to_pylist()) == {"clinic_dev"}
    assert validations.column("run").to_pylist() == ["A"] * 3 + ["B"] * 3 + ["C"] * 3
    runs = json.loads((collected / "runs.json").read_text())
    assert [(r["method"], r["run"]) for r in runs][:3] == [
        ("shared_sft", "A"),
        ("pcqc", "A"),
        ("pcqc", "B"),
    ]
    assert runs[0]["training"] is None
    assert runs[1]["training"]["totals"]["trajectories"] == 64
    assert runs[1]["selection"]["selected"]["update"] == 4
    assert sorted({p.name for p in collected.iterdir()} - {MARKER, STATE}) == [
        "manifest.json",
        "predictions.parquet",
        "runs.json",
        "updates.parquet",
        "validations.parquet",
    ]
    # Collected again it is the same bytes, whatever became of the local files.
    before = tree(collected)
    for path in (mirrored.results / "evaluation").rglob("*.parquet"):
        path.unlink()
    assert tree(collect(mirrored)) == before


def test_an_artifact_changed_or_missing_in_mlflow_is_refused_and_nothing_is_lost(mirrored):
    before = tree(collect(mirrored))
    path = stored(mirrored, "pcqc", "B", "evaluation/clinic_dev.parquet")
    content = path.read_bytes()
    path.unlink()  # the run's own file, of which it is a link, stays
    path.write_bytes(content[:-9])
    with pytest.raises(UserError, match=r"clinic_dev\.parquet of run B of pcqc has changed in"):
        collect(mirrored)
    assert tree(latest(mirrored, "collect")) == before
    path.unlink()
    with pytest.raises(UserError, match=r"cannot fetch artifact evaluation/.* mirror"):
        collect(mirrored)
    mirror(mirrored, "pcqc")
    assert tree(collect(mirrored)).keys() == before.keys()


def test_a_run_deleted_in_mlflow_is_mirrored_anew(mirrored):
    store = open_store(mirrored)
    before = tree(collect(mirrored))
    store.client.delete_run(ids(mirrored, "pcqc")["B"])
    folder = mirrored.results / "tracking" / "pcqc"
    with pytest.raises(UserError, match=f"no run B of pcqc, .*; remove {folder} and run `pcqc mir"):
        collect(mirrored)
    shutil.rmtree(folder)
    run_job(mirrored, "mirror", "pcqc")
    assert tree(collect(mirrored)) == before
