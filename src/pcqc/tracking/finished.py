"""A finished run on disk: its manifests, its files, and one digest over all of it."""

import time
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pcqc.errors import UserError
from pcqc.study import Study, digest
from pcqc.study.checked_data import check_data
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.receipts import Receipt
from pcqc.study.shapes import (
    ContinuationManifest,
    EvaluationManifest,
    GroupRow,
    RunManifest,
    Selection,
    TrackingRecord,
    TreeRow,
)
from pcqc.system.files import read_json, read_jsonl, sha256_file

# Raise it when the mirror of the same files changes, a template of it too: all runs are mirrored
# again.
LAYOUT = 5

# Mirrored where they exist, even if the manifest does not list them.
ALWAYS = (
    "manifest.json",
    "selection.json",
    "events.jsonl",
    "candidate_groups.jsonl",
    "consultations.jsonl",
    "grounding.csv",
)

# Folder of a run's artifacts in MLflow -> where they come from.
PLACES = {
    "training": Paths.run,
    "evaluation": Paths.evaluation,
    "continuation": Paths.continuation,
}

# What makes a folder, and what its manifest must hold.
JOBS = {"training": "train", "evaluation": "evaluate", "continuation": "continuation"}
SHAPES = {
    "training": RunManifest,
    "evaluation": EvaluationManifest,
    "continuation": ContinuationManifest,
}


def moment(said: str | None) -> int:
    """Milliseconds since 1970 of what `machine.now` said; now where a receipt says nothing."""
    return round(1000 * (datetime.fromisoformat(said).timestamp() if said else time.time()))


@dataclass(frozen=True)
class FinishedRun:
    """One run of a method; `files` maps artifact paths in MLflow to files on disk."""

    study: Study
    method: str
    run: str
    training: dict | None  # manifest of runs/<method>/<run>; None without training
    evaluation: dict  # manifest of evaluation/<method>/<run>
    selection: dict | None
    continuation: dict | None  # manifest of continuation/<method>/<run>; None for most runs
    files: dict[str, Path]
    digests: dict[str, str]  # artifact path -> sha256
    data: dict[str, dict]  # data set -> {"sha256", "rows", "path"}
    started: int  # milliseconds since 1970, as MLflow counts; when the first of its jobs began
    ended: int  # when its evaluation had finished

    @property
    def name(self) -> str:
        return f"{self.study.method(self.method).title}, run {self.run}"

    @property
    def transcripts(self) -> str:
        """Address of the page that shows its consultations, from where the study was run."""
        chosen = urlencode({"method": self.method, "run": self.run})
        return f"{self.study.results}/transcripts/index.html#{chosen}"

    @property
    def results(self) -> dict[str, dict]:
        """Numbers of the evaluation, benchmark by benchmark in the study's order."""
        found = self.evaluation["benchmarks"]
        return {name: found[name] for name in self.study.benchmarks if name in found}

    @property
    def settings(self) -> dict:
        """The settings that made the run, nested."""
        made = (self.training or self.evaluation).get("settings")
        if made is not None:
            return made
        used = ("sft", "protocol", "actor_decoding", "patient_decoding", "evaluation_seed")
        everything = self.study.to_dict()
        methods = {self.method: everything["methods"][self.method]}
        return {"methods": methods} | {k: everything[k] for k in used}

    @property
    def settings_digest(self) -> str:
        return digest(self.settings)

    @property
    def duration(self) -> int:
        """Milliseconds from its start to its end, waiting included."""
        return max(0, self.ended - self.started)

    @cached_property
    def contents(self) -> str:
        """Digest of everything the mirror shows: equal contents are mirrored once."""
        traces = self.study.tracking.consultations_as_traces
        parts = [LAYOUT, traces, self.digests, {k: v["sha256"] for k, v in self.data.items()}]
        return digest(parts)

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


def read_finished(study: Study, method: str, run: str) -> FinishedRun:
    """Read a run's folders and check every file against the run's manifests.

    Raises:
        UserError: the run is not evaluated or, where it was trained, not finished; a file is
            missing or is not the one its manifest describes; the run's continuation study is of
            another checkpoint.
    """
    study.require(method, run)
    needed = {"evaluation": f"evaluate run {run} of {method} first"}
    if study.method(method).kind == "rl":
        needed["training"] = "finish the training of that run first"
    manifests: dict[str, dict] = {}
    receipts: dict[str, Receipt] = {}
    files: dict[str, Path] = {}
    digests: dict[str, str] = {}
    for place, folder_of in PLACES.items():
        folder = folder_of(Paths.of(study), method, run)
        if (folder / "manifest.json").exists():
            receipts[place] = job_output(study, JOBS[place], method, run).require("manifest.json")
            manifests[place] = _collect(folder, place, files, digests)
        elif place in needed:
            raise UserError(f"{folder} has no manifest.json: {needed[place]}")
    _check_agreement(study, method, run, manifests)
    training, evaluation = manifests.get("training"), manifests["evaluation"]
    selection = _selection(files.get("evaluation/selection.json"), evaluation)
    return FinishedRun(
        study=study,
        method=method,
        run=run,
        training=training,
        evaluation=evaluation,
        selection=selection,
        continuation=manifests.get("continuation"),
        files=files,
        digests=digests,
        data=_data(study, [*(["train"] if training else []), *sorted(evaluation["benchmarks"])]),
        started=moment(receipts.get("training", receipts["evaluation"]).begun),
        ended=moment(receipts["evaluation"].finished),
    )


def _check_agreement(study: Study, method: str, run: str, manifests: dict[str, dict]) -> None:
    """Evaluation and continuation are of one checkpoint, and of the study's benchmarks."""
    paths, evaluation = Paths.of(study), manifests["evaluation"]
    continued = manifests.get("continuation", evaluation)
    if continued["checkpoint"] != evaluation["checkpoint"]:
        raise UserError(
            f"{paths.continuation(method, run)} continues from another checkpoint "
            "than was evaluated; remove it and run the rule `continuation`"
        )
    if unknown := set(evaluation["benchmarks"]) - set(study.benchmarks):
        raise UserError(
            f"{paths.evaluation(method, run)}/manifest.json: '{min(unknown)}' is no "
            f"benchmark of study '{study.name}'; evaluate that run again"
        )


def _selection(path: Path | None, evaluation: dict) -> dict | None:
    """The choice of the checkpoint that was evaluated."""
    if path is None:
        return None
    remedy = f"remove {path} and run the workflow again"
    selection = read_json(path, Selection, remedy)
    if selection["selected"]["update"] != evaluation["update"]:
        raise UserError(f"{path}: chooses another checkpoint than was evaluated; {remedy}")
    return selection


def record_of(study: Study, method: str) -> dict:
    """What was mirrored of a method: `tracking/<method>.json`; UserError where it was altered."""
    mirrored = job_output(study, "mirror", method)
    mirrored.require(mirrored.path.name)
    return read_json(
        mirrored.path, TrackingRecord, f"remove {mirrored.path} and run the workflow again"
    )


def finished_runs(study: Study, method: str) -> list[str]:
    """Letters of the method's runs that are evaluated, in the study's order."""
    paths = Paths.of(study)
    return [r for r in study.runs if (paths.evaluation(method, r) / "manifest.json").exists()]


def _collect(folder: Path, place: str, files: dict[str, Path], digests: dict[str, str]) -> dict:
    """Add a folder's files as artifacts below `place`; its manifest."""
    path = folder / "manifest.json"
    manifest = read_json(path, SHAPES[place], f"remove {path} and run the workflow again")
    listed = manifest["files"]
    names = [*listed, *(name for name in ALWAYS if (folder / name).exists())]
    for name in sorted(set(names)):
        path = folder / name
        sha = sha256_file(path)
        if listed.get(name, sha) != sha:
            raise UserError(f"{path} is not the file of its manifest.json; make that run again")
        files[f"{place}/{name}"] = path
        digests[f"{place}/{name}"] = sha
    return manifest


def _data(study: Study, names: list[str]) -> dict[str, dict]:
    """Digest, number of rows and path of the named data sets."""
    folder = Paths.of(study).data
    path = folder / "manifest.json"
    check_data(study, *(folder / f"{name}.jsonl" for name in names))
    known = {Path(name).stem: (name, entry) for name, entry in read_json(path)["files"].items()}
    found = {}
    for name in names:
        file, entry = known[name]
        found[name] = {**entry, "path": str(folder / Path(file).name)}
    return found
