"""`also_evaluate`: the files and the manifest of an evaluation at several updates."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pcqc.jobs import evaluate as job
from pcqc.study import load_study
from pcqc.system.files import read_json, sha256_file


class Actor:
    """Its accuracy is the weights that it last loaded."""

    weights = 0.5

    def load_weights(self, weights):
        ((_, self.weights),) = weights

    def reset_cache(self):
        pass


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """Evaluate PCQC's run A, whose selected update is 4, with further updates; the folder."""
    actor = Actor()
    folder = tmp_path / "A"
    folder.mkdir()
    (folder / "selection.json").write_text("{}")
    receipt = SimpleNamespace(made_from=SimpleNamespace(fingerprint="f"))
    finished = []
    result = SimpleNamespace(
        path=folder, stands=lambda: False, begin=lambda: receipt, finish=finished.extend
    )
    context = SimpleNamespace(
        actor=SimpleNamespace(engine=actor), patient=SimpleNamespace(engine=Actor())
    )

    def evaluate(context, cases, seed, benchmark, labels):
        said = {"accuracy": actor.weights, "turns": 1.0}
        return SimpleNamespace(
            summary=lambda: said,
            write=lambda *paths: [path.write_text(str(labels["update"])) for path in paths],
        )

    weights = {
        f"digest {update}": SimpleNamespace(
            load=lambda value=value: SimpleNamespace(named_parameters=lambda: [("w", value)])
        )
        for update, value in ((2, 0.25), (6, 0.75))
    }
    monkeypatch.setattr(job, "job_output", lambda *_: result)
    monkeypatch.setattr(job, "single_threaded", lambda *_: nullcontext())
    monkeypatch.setattr(job, "read_checked_cases", lambda *_: [])
    monkeypatch.setattr(job, "selected_weights", lambda *_: (4, "digest 4", None))
    monkeypatch.setattr(job, "make_context", lambda *_: context)
    monkeypatch.setattr(job, "evaluate", evaluate)
    monkeypatch.setattr(job, "checkpoints_of", lambda *_: {2: "digest 2", 6: "digest 6"})
    monkeypatch.setattr(job, "_trained_weights", lambda *names: (names[-1], weights[names[-1]]))

    def run(updates):
        study = replace(load_study("clinic-mini"), also_evaluate=updates)
        job.run_evaluation(study, "pcqc", "A")
        return folder, finished

    return run


def test_each_further_update_has_files_of_its_own_and_an_entry_in_the_manifest(evaluated):
    folder, finished = evaluated({"pcqc": (2, 6), "grpo": (2,)})
    manifest = read_json(folder / "manifest.json")
    assert (manifest["update"], manifest["checkpoint"]) == (4, "digest 4")
    assert manifest["benchmarks"]["clinic_dev"]["accuracy"] == 0.5
    further = manifest["further_updates"]
    found = {
        u: (f["checkpoint"], f["benchmarks"]["clinic_dev"]["accuracy"]) for u, f in further.items()
    }
    assert found == {"2": ("digest 2", 0.25), "6": ("digest 6", 0.75)}
    assert further["2"]["benchmarks"]["clinic_dev"]["predictions"] == "clinic_dev@2.parquet"
    assert (folder / "clinic_dev@6.jsonl").read_text() == "6"
    assert manifest["files"]["clinic_dev@2.parquet"] == sha256_file(folder / "clinic_dev@2.parquet")
    assert {"selection.json", "clinic_dev.parquet", "clinic_dev@6.jsonl"} < set(finished)


def test_a_manifest_without_further_updates_is_what_it_was(evaluated):
    folder, _ = evaluated({})
    manifest = read_json(folder / "manifest.json")
    assert "further_updates" not in manifest
    assert set(manifest["files"]) == {"selection.json"} | {
        f"{name}.{kind}"
        for name in load_study("clinic-mini").benchmarks
        for kind in ("parquet", "jsonl")
    }
