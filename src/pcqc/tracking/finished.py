"""Result files, as tracking reads and writes them: no other module of it knows where they lie.

A run's folders are checked against their manifests before anything in them is used.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pcqc.errors import UserError
from pcqc.study import Study, digest
from pcqc.study.job_outputs import checkpoint_folder, job_output
from pcqc.study.paths import Paths
from pcqc.study.shapes import (
    CollectedRuns,
    ContinuationManifest,
    EvaluationManifest,
    GroupRow,
    RunManifest,
    Selection,
    TrackingRecord,
    TreeRow,
)
from pcqc.system.files import read_json, read_jsonl, sha256_file, write_json

# Folder of a run's artifacts in MLflow -> the job that made them, their folder on disk, and what
# the manifest there holds.
PLACES = {
    "training": ("train", Paths.run, RunManifest),
    "evaluation": ("evaluate", Paths.evaluation, EvaluationManifest),
    "continuation": ("continuation", Paths.continuation, ContinuationManifest),
}

# Mirrored where they exist, even if the manifest does not list them.
ALWAYS = (
    "manifest.json",
    "selection.json",
    "events.jsonl",
    "candidate_groups.jsonl",
    "consultations.jsonl",
    "grounding.csv",
)


@dataclass(frozen=True)
class FinishedRun:
    """One run of a method; `files` maps artifact paths in MLflow to files on disk."""

    study: Study
    method: str
    run: str
    training: dict | None  # manifest of the training; None for Shared SFT
    evaluation: dict  # manifest of the evaluation
    selection: dict | None  # the choice of the checkpoint
    continuation: dict | None  # manifest of the continuation study; None for most runs
    files: dict[str, Path]
    sha256: dict[str, str]  # by artifact path
    started: int  # milliseconds since 1970: when the first of its jobs began
    ended: int  # when its evaluation had finished

    @property
    def title(self) -> str:
        return f"{self.study.method(self.method).title}, run {self.run}"

    @property
    def transcripts(self) -> str:
        """Address of the page that shows its consultations, from where the study was run."""
        chosen = urlencode({"method": self.method, "run": self.run})
        return f"{self.study.results}/transcripts/index.html#{chosen}"

    @property
    def settings(self) -> dict:
        """The settings that made the run, nested."""
        if self.training:
            return self.training["settings"]
        used = ("sft", "protocol", "actor_decoding", "patient_decoding", "evaluation_seed")
        everything = self.study.to_dict()
        methods = {self.method: everything["methods"][self.method]}
        return {"methods": methods} | {name: everything[name] for name in used}

    @property
    def duration(self) -> int:
        """Milliseconds from its start to its end, waiting included."""
        return max(0, self.ended - self.started)

    @cached_property
    def contents(self) -> str:
        """Digest of what the mirror writes: a run with equal contents is mirrored once."""
        return digest([self.study.tracking.consultations_as_traces, self.sha256])

    @cached_property
    def groups(self) -> list[dict]:
        """The run's candidate groups; none for a method that draws none."""
        return self.rows("training/candidate_groups.jsonl", GroupRow)

    @cached_property
    def trees(self) -> list[dict]:
        """The trees that the run kept, one an update; none for a method that searches none."""
        return self.rows("training/trees.jsonl", TreeRow)

    def rows(self, artifact: str, shape: Any = None) -> list[dict]:
        """Rows of a JSON-lines file of the run; none where the run has no such file."""
        path = self.files.get(artifact)
        return [row for _, row in read_jsonl(path, shape)] if path else []


def milliseconds(time_stamp: str | None) -> int:
    """Milliseconds since 1970 of a time as `machine.now` writes it; the present for None."""
    seconds = datetime.fromisoformat(time_stamp).timestamp() if time_stamp else time.time()
    return round(1000 * seconds)


def evaluated_runs(study: Study, method: str) -> list[str]:
    """Letters of the method's evaluated runs, in the study's order."""
    paths = Paths.of(study)
    return [r for r in study.runs if (paths.evaluation(method, r) / "manifest.json").exists()]


def read_finished(study: Study, method: str, run: str) -> FinishedRun:
    """Read a run's folders and check every file against the run's manifests.

    Raises:
        UserError: the run is not evaluated or, where it was trained, not finished; a file is
            missing or is not the one that its manifest describes.
    """
    study.require(method, run)
    needed = {"evaluation": f"evaluate run {run} of {method} first"}
    if study.method(method).kind == "rl":
        needed["training"] = "finish the training of that run first"
    manifests, receipts = {}, {}
    files: dict[str, Path] = {}
    for place, (job, folder_of, shape) in PLACES.items():
        folder = folder_of(Paths.of(study), method, run)
        path = folder / "manifest.json"
        if not path.exists():
            if place in needed:
                raise UserError(f"{folder} has no manifest.json: {needed[place]}")
            continue
        receipts[place] = job_output(study, job, method, run).require("manifest.json")
        manifests[place] = read_json(path, shape, f"remove {path} and run the workflow again")
        names = {*manifests[place]["files"], *(n for n in ALWAYS if (folder / n).exists())}
        files |= {f"{place}/{name}": folder / name for name in sorted(names)}
    sha256 = {artifact: sha256_file(path) for artifact, path in files.items()}
    for place, manifest in manifests.items():
        for name, expected in manifest["files"].items():
            if sha256[f"{place}/{name}"] != expected:
                path = files[f"{place}/{name}"]
                raise UserError(f"{path} is not the file of its manifest.json; make that run again")
    selection = files.get("evaluation/selection.json")
    return FinishedRun(
        study=study,
        method=method,
        run=run,
        training=manifests.get("training"),
        evaluation=manifests["evaluation"],
        selection=read_json(selection, Selection) if selection else None,
        continuation=manifests.get("continuation"),
        files=files,
        sha256=sha256,
        started=milliseconds(receipts.get("training", receipts["evaluation"]).begun),
        ended=milliseconds(receipts["evaluation"].finished),
    )


def selected_weights(run: FinishedRun) -> Path | None:
    """Folder of the selected checkpoint; None where its weights were removed."""
    folder = checkpoint_folder(run.study, run.method, run.run)
    return folder if folder.is_dir() else None


def evaluations(study: Study, method: str) -> list[dict]:
    """Manifests of the evaluations of all evaluated runs of a method."""
    paths = Paths.of(study)
    runs = evaluated_runs(study, method)
    return [read_json(paths.evaluation(method, run) / "manifest.json") for run in runs]


def trainings(study: Study, method: str) -> list[list[dict]]:
    """Rows of `events.jsonl` of all evaluated runs of a method, run by run."""
    paths = Paths.of(study)
    files = [paths.run(method, run) / "events.jsonl" for run in evaluated_runs(study, method)]
    return [[row for _, row in read_jsonl(path)] for path in files if path.exists()]


def read_record(study: Study, method: str) -> dict:
    """Which MLflow run holds what of a method: `tracking/<method>.json`.

    Raises UserError where it is missing or was altered.
    """
    mirrored = job_output(study, "mirror", method)
    mirrored.require(mirrored.path.name)
    return read_json(
        mirrored.path, TrackingRecord, f"remove {mirrored.path} and run the workflow again"
    )


def write_record(study: Study, method: str, experiment_id: str, runs: dict[str, dict]) -> Path:
    """Write `tracking/<method>.json`."""
    return _write(study, {"experiment_id": experiment_id, "runs": runs}, "mirror", method)


def write_experiment(study: Study, experiment_id: str) -> Path:
    """Write `tracking/store.json`: the store is prepared, and has this experiment."""
    return _write(study, {"experiment_id": experiment_id}, "store")


def write_published(study: Study, record: dict) -> Path:
    """Write which MLflow run has the report, and what of it."""
    return _write(study, record, "publish")


def _write(study: Study, value: dict, job: str, method: str | None = None) -> Path:
    result = job_output(study, job, method)
    write_json(result.path, value)
    result.vouch([result.path])
    return result.path


def published(study: Study) -> Path:
    """The record of what was published, and in which run."""
    return job_output(study, "publish").path


def forget_records(study: Study) -> None:
    """Remove the records of the study's runs in MLflow, whose store has none of them."""
    for method in study.methods:
        mirrored = job_output(study, "mirror", method)
        mirrored.receipt_path.unlink(missing_ok=True)
        mirrored.path.unlink(missing_ok=True)
    for path in (job_output(study, "store").path, job_output(study, "store").receipt_path):
        path.unlink(missing_ok=True)


def read_collected(study: Study) -> list[dict]:
    """Entries of `collected/runs.json`; UserError where it is missing or altered."""
    job_output(study, "collect").require()
    return read_json(Paths.of(study).collected / "runs.json", CollectedRuns)


def finish_collected(study: Study, files: Iterable[Path]) -> None:
    """Note the digests of the files in `collected/`."""
    job_output(study, "collect").vouch(files)
