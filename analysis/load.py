"""Every file that the analysis reads of a study is found and read here.

`collected/` is fetched from the MLflow artifacts, digest by digest. Dialogues, on-demand runs and
data cards are read from their jobs' own folders; what is known of the clinic, from its world and
cases.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.collected import Collected
from analysis.training_flops import with_compute
from clinic_env.world import World
from pcqc.cases.case import Case, read_cases
from pcqc.evaluation.predictions import SCHEMA
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json
from pcqc_base.system.json_shapes import CollectedRuns
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_clinic.world import load_world, require_of_world
from pcqc_study.graph import Jobs, latest
from pcqc_study.runs import Run, read_frame
from pcqc_study.runs import load as load_run
from pcqc_study.study_file import Study
from pcqc_study.study_file.replicates import replicates


def load(study: Study, inputs: Mapping[str, Path] | None = None) -> Collected:
    """Read `collected/` of a study and of its replicates.

    Args:
        study: the study.
        inputs: of the job that reads them: `collected`, and `collected NAME` of each replicate;
            the newest where not given.

    Raises:
        UserError: a file is missing or broken, or holds what the study does not have; a replicate
            differs in more than its base model, or was made on other cases.
    """
    given = inputs or {}
    collected = _load(study, given.get("collected"))
    others = tuple(_load(o, given.get(f"collected {o.name}")) for o in replicates(study))
    for other in others:
        for name, benchmark in study.benchmarks.items():
            if not collected.case_ids(name).equals(other.case_ids(name)):
                raise UserError(
                    f"study '{other.study.name}' has other cases of {benchmark.title} than "
                    f"'{study.name}'; make it again"
                )
    return replace(collected, others=others)


def _load(study: Study, folder: Path | None) -> Collected:
    folder = checked(folder or latest(study, "collect"))
    further, validations = (
        read_frame(path, SCHEMA.names) if (path := folder / f"{name}.parquet").exists() else None
        for name in ("further_updates", "validations")
    )
    predictions = read_frame(folder / "predictions.parquet", SCHEMA.names)
    updates = read_frame(folder / "updates.parquet", ("method", "run", "kind", "update"))
    runs = read_json(folder / "runs.json", CollectedRuns, "collect the study's runs again")
    records = {(run["method"], run["run"]): run for run in runs}

    def dialogues(method: str, run: str, benchmark: str) -> Iterator[dict[str, Any]]:
        evaluated = latest(study, "evaluate", method, run)
        own = evaluated.with_name(records[method, run]["fingerprint"])
        return Run(study.results, method, run, {"evaluate": own}).dialogues(benchmark)

    collected = Collected(
        study,
        predictions,
        with_compute(study, updates),
        records,
        further=further,
        validations=validations,
        dialogues=dialogues,
    )
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


def evaluated_methods(study: Study) -> list[str]:
    """Methods, controls and ablations of which every run is evaluated on this machine."""
    return [
        name
        for name, method in study.methods.items()
        if method.runs
        and all((latest(study, "evaluate", name, run) / MANIFEST).exists() for run in method.runs)
    ]


def known_runs(study: Study) -> Iterator[Run]:
    """Runs of methods, controls and ablations, once every run of their method is evaluated."""
    for name in evaluated_methods(study):
        for letter in study.method(name).runs:
            yield load_run(study.results, name, letter)


def load_methods(
    study: Study, wanted: list[str], inputs: Mapping[str, Path] | None = None
) -> Collected:
    """The wanted methods of which every run is evaluated, each in the role of a method.

    Args:
        study: the study.
        wanted: names of methods.
        inputs: `evaluate METHOD RUN` of each run; the newest evaluations where not given.
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
            evaluated = (inputs or {}).get(f"evaluate {name} {letter}")
            run = load_run(study.results, name, letter, evaluated)
            predictions.append(run.predictions())
            updates.append(with_compute(study, run.metrics().assign(method=name, run=letter)))
            records[name, letter] = {"evaluation": run.evaluation, "training": run.training}
    frames = (pd.concat(rows) if rows else pd.DataFrame() for rows in (predictions, updates))
    return Collected(counted, *frames, records).only(ready)


def world_path(study: Study) -> Path:
    """The file with the clinic of a synthetic study."""
    return latest(study, "clinic", "world") / "world.json"


def read_world(study: Study) -> World:
    """The clinic of a synthetic study."""
    return load_world(checked(world_path(study)))


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
