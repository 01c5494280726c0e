"""Every file that the analysis reads of a study is found and read here.

`collected/` is fetched from the MLflow artifacts, digest by digest. On-demand runs, transcripts and
data cards are read from their jobs' own folders; what is known of the clinic, from its world and
cases.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from typing_extensions import TypedDict

from analysis.collected import Collected
from analysis.compute import with_compute
from clinic_env.world import World
from pcqc.cases.case import Case, read_cases
from pcqc.evaluation.predictions import SCHEMA
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.json_shapes import CollectedRuns
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_clinic.world import load_world, require_of_world
from pcqc_study.finished_runs import Run, read_frame
from pcqc_study.finished_runs import load as load_run
from pcqc_study.graph import Jobs, latest
from pcqc_study.settings import Study
from pcqc_study.settings.replicates import replicates

TRAINING_FILES = ("consultations.jsonl", "candidate_groups.jsonl", "trees.jsonl")


class PeerRun(TypedDict):
    """An entry of `peers/runs.json`."""

    method: str
    run: str
    training: dict[str, Any] | None
    evaluation: dict[str, Any]


def load(study: Study) -> Collected:
    """Read `collected/` of a study and of its replicates.

    Raises:
        UserError: a file is missing or broken, or holds what the study does not have; a replicate
            differs in more than its base model, or was made on other cases.
    """
    collected = _load(study)
    others = tuple(_load(other) for other in replicates(study))
    for other in others:
        for name, benchmark in study.benchmarks.items():
            if not collected.case_ids(name).equals(other.case_ids(name)):
                raise UserError(
                    f"study '{other.study.name}' has other cases of {benchmark.title} than "
                    f"'{study.name}'; make it again"
                )
    return replace(collected, others=others)


def _load(study: Study) -> Collected:
    folder = checked(latest(study, "collect"))
    further, validations = (
        read_frame(path, SCHEMA.names) if (path := folder / f"{name}.parquet").exists() else None
        for name in ("further_updates", "validations")
    )
    collected = replace(read_runs(study, folder), further=further, validations=validations)
    _check(collected, folder / "predictions.parquet")
    return collected


def _check(collected: Collected, path: Path) -> None:
    """Every method, run and benchmark of the study has each of its cases once."""
    study, rows = collected.study, collected.predictions
    known = {"method": study.methods, "benchmark": study.benchmarks}
    for column, names in known.items():
        if stray := set(rows[column]) - set(names):
            raise UserError(
                f"{path}: {column} '{min(stray)}' is not in study '{study.name}'; collect again"
            )
    keys = ["method", "run", "benchmark", "case_id"]
    if (repeated := rows.duplicated(keys)).any():
        row = rows[repeated].iloc[0]
        raise UserError(
            f"{path}: case '{row.case_id}' is there twice for {row.method} run {row.run}; "
            "collect the study's runs again"
        )
    for method in collected.methods():
        for run in collected.runs(method):
            for benchmark in study.benchmarks:
                collected.cases(method, run, benchmark)


def read_runs(study: Study, folder: Path, shape: Any = CollectedRuns) -> Collected:
    """Predictions, updates and records in a folder; UserError where one is missing or broken.

    Args:
        study: whose they are.
        folder: where they lie.
        shape: type that `runs.json` must have.
    """
    predictions = read_frame(folder / "predictions.parquet", SCHEMA.names)
    updates = read_frame(folder / "updates.parquet", ("method", "run", "kind", "update"))
    runs = read_json(folder / "runs.json", shape, "collect the study's runs again")
    records = {(run["method"], run["run"]): run for run in runs}

    def dialogues(method: str, run: str, benchmark: str) -> Iterator[dict[str, Any]]:
        path = folder / "dialogues" / method / run / f"{benchmark}.jsonl"
        return (row for _, row in read_jsonl(path))

    counted = with_compute(study, updates)
    return Collected(study, predictions, counted, records, dialogues=dialogues)


def evaluated_methods(study: Study) -> list[str]:
    """Methods, controls and ablations of which every run is evaluated on this machine."""
    return [
        name
        for name, method in study.methods.items()
        if method.runs
        and all((latest(study, "evaluate", name, run) / MANIFEST).exists() for run in method.runs)
    ]


def known_runs(study: Study) -> Iterator[Run]:
    """Runs of methods, controls and ablations that are evaluated on this machine or collected.

    A run that is not collected counts once every run of its method is evaluated here. A run that is
    both is read as it was evaluated here.
    """
    here, collected = evaluated_methods(study), latest(study, "collect") / "runs.json"
    runs = read_json(checked(collected), CollectedRuns) if collected.exists() else []
    elsewhere = {(run["method"], run["run"]) for run in runs}
    for name, method in study.methods.items():
        for letter in method.runs:
            if name in here or (name, letter) in elsewhere:
                yield load_run(study.results, name, letter)


def peers_folder(study: Study) -> Path:
    """Where a restored archive has the published credits that were evaluated."""
    return study.results / "restored_peers"


def load_methods(study: Study, wanted: list[str]) -> Collected:
    """The wanted methods whose every run is known, each in the role of a method.

    A method's runs are those evaluated on this machine, else those restored from an archive, else
    those collected.
    """
    methods = {
        name: replace(method, role="method") if name in wanted else method
        for name, method in study.methods.items()
    }
    counted = replace(study, methods=methods)
    ready = [name for name in evaluated_methods(study) if name in wanted]
    predictions, updates, records = [], [], {}
    for name in ready:
        for letter in study.method(name).runs:
            run = load_run(study.results, name, letter)
            predictions.append(run.predictions())
            updates.append(with_compute(study, run.metrics().assign(method=name, run=letter)))
            records[name, letter] = {"evaluation": run.evaluation, "training": run.training}
    sources = ((peers_folder(study), list[PeerRun]), (latest(study, "collect"), CollectedRuns))
    for folder, shape in sources:
        rest = [name for name in wanted if name not in ready]
        if not rest or not folder.exists():
            continue
        if whole := of_methods(read_runs(counted, folder, shape), rest):
            predictions.append(whole.predictions)
            updates.append(whole.updates)
            records |= whole.records
            ready += whole.methods()
    frames = (pd.concat(rows) if rows else pd.DataFrame() for rows in (predictions, updates))
    return Collected(counted, *frames, records).only(ready)


def of_methods(runs: Collected, methods: Iterable[str]) -> Collected | None:
    """The runs of those methods whose every run is known; None where there is no such method."""
    whole = [
        name
        for name in methods
        if runs.runs(name) and all((name, run) in runs.records for run in runs.runs(name))
    ]
    if not whole:
        return None
    predictions, updates = (
        frame[frame["method"].isin(whole)] for frame in (runs.predictions, runs.updates)
    )
    records = {key: record for key, record in runs.records.items() if key[0] in whole}
    return replace(runs, predictions=predictions, updates=updates, records=records).only(whole)


def read_world(study: Study) -> World:
    """The clinic of a synthetic study."""
    return load_world(checked(latest(study, "clinic", "world") / "world.json"))


class CasesById(dict[str, Case]):
    """Case id -> case of a benchmark or, under any other name, of the training."""

    def __init__(self, study: Study, benchmark: str):
        name = benchmark if benchmark in study.benchmarks else "train"
        self.path = Jobs(study).cases(name).latest
        super().__init__((case.case_id, case) for case in read_cases(checked(self.path)))
        if study.synthetic:
            require_of_world(read_world(study), self.values(), self.path)

    def __missing__(self, case_id: str) -> Case:
        """UserError: the data are not those of the consultations."""
        raise UserError(
            f"{self.path}: no case '{case_id}', on which a consultation was held; make data and "
            "runs of one study agree"
        )


def read_continuation(study: Study, method: str, run: str) -> tuple[pd.DataFrame, ...]:
    """Candidates, their continuations and judged answers, as collected of a policy."""
    folder = latest(study, "collect") / "continuation" / method / run
    columns = {
        "candidates.parquet": ("set", "question", "answer", "utility", "credit", "ungrounded"),
        "continuations.parquet": ("set", "correct"),
        "grounding.csv": ("eligible", "judge"),
    }
    return tuple(
        read_frame(folder / name, ("case_id", "candidate", *needed))
        for name, needed in columns.items()
    )


def read_cards(study: Study) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """Data cards of the study's published files, and the number of rows of each file it uses."""
    cards = {
        name: read_json(checked(latest(study, "convert", name) / f"{name}.card.json"))
        for name in study.raw_files
    }
    rows: dict[str, int] = {}
    for name in ("train", *study.benchmarks):
        rows |= read_manifest(Jobs(study).cases(name).latest.parent)["rows"]
    return cards, rows


def read_overlap(study: Study) -> tuple[dict[str, float], pd.DataFrame]:
    """Thresholds of the audit of overlapping cases, and its counts."""
    folder = checked(latest(study, "overlap"))
    counts = read_frame(folder / "counts.csv", ("evaluation", "training"))
    return read_json(folder / "inputs.json")["thresholds"], counts


def training_rows(study: Study, method: str, run: str) -> dict[str, list[dict]]:
    """File of `TRAINING_FILES` -> its rows: what was kept of a run's training."""
    folder = latest(study, "train", method, run)
    names = [name for name in TRAINING_FILES if (folder / name).exists()]
    return {name: [row for _, row in read_jsonl(checked(folder / name))] for name in names}
