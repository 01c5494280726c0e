"""Every consultation of a study that is kept: those of the evaluations, and samples of training.

They are read from the runs' own files, against the receipts of the jobs that wrote them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from analysis.collected import read_frame
from analysis.evaluated import evaluated_methods
from analysis.transcripts.candidates import Groups, Trees, Value, continued
from analysis.transcripts.exact import ExactValues
from pcqc.cases.case import Case, read_cases
from pcqc.clinic.world import World
from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import read_json, read_jsonl

TRAINING = "training"


@dataclass(frozen=True)
class Place:
    """Where consultations were held: a benchmark, or training.

    Attributes:
        name: of the benchmark; `training`.
        title: for people.
        path: of its cases.
        exact: what is known exactly of its cases, in the clinic.
    """

    name: str
    title: str
    path: Path
    exact: ExactValues | None

    @cached_property
    def cases(self) -> dict[str, Case]:
        return {case.case_id: case for case in read_cases(self.path)}

    def case(self, case_id: str) -> Case:
        """A case; UserError where the data are not those of the consultations."""
        if case_id not in self.cases:
            raise UserError(
                f"{self.path}: no case '{case_id}', on which a consultation was held; make data "
                "and runs of one study agree"
            )
        return self.cases[case_id]


@dataclass(frozen=True)
class Consultation:
    """One consultation as the page has it.

    Attributes:
        method, run: whose it is.
        update: of the checkpoint, or of training.
        place: where it was held.
        row: as its job wrote it.
        states: what was compared before each of its turns.
    """

    method: str
    run: str
    update: int
    place: Place
    row: dict[str, Any]
    states: list[dict | None]

    @property
    def questions(self) -> int:
        """Inquiry turns."""
        return sum(turn["action"] != "final" for turn in self.row["turns"])

    def contents(self) -> dict[str, Any]:
        """What the page shows of it, beside its case."""
        turns, exact = self.row["turns"], self.place.exact
        shown = []
        for number, turn in enumerate(turns):
            part = {"said": turn["response"], "kind": turn["action"], "answer": turn["answer"]}
            if exact:
                case = self.place.case(self.row["case_id"])
                part["exact"] = exact.state(case, turns[:number])
                part["exact"]["value"] = exact.value(case, turns[:number], turn["question"])
            if self.states[number]:
                part["state"] = self.states[number]
            shown.append(part)
        outcome = {key: self.row[key] for key in ("predicted", "actor_tokens")}
        learned = {k: round(self.row[k], 4) for k in ("reward", "advantage") if k in self.row}
        return {"turns": shown, **outcome, **learned}


def places(study: Study) -> list[Place]:
    """The study's benchmarks, then its training."""
    paths = Paths.of(study)
    world = World.load(paths.world) if study.synthetic else None

    def exact(base_rates: str) -> ExactValues | None:
        return ExactValues(world, world.rates(base_rates)) if world else None

    found = [
        Place(name, benchmark.title, paths.cases(name), exact(benchmark.base_rates))
        for name, benchmark in study.benchmarks.items()
    ]
    return [*found, Place(TRAINING, "Training", paths.train_cases, exact("uniform"))]


def consultations(study: Study, found: list[Place]) -> Iterator[Consultation]:
    """All of every evaluated method, control and ablation, run by run.

    Raises:
        UserError: a file is not the one that its job wrote.
    """
    *benchmarks, training = found
    for method in evaluated_methods(study):
        for run in study.method(method).runs:
            folder = Paths.of(study).evaluation(method, run)
            job_output(study, "evaluate", method, run).require()
            manifest = read_json(folder / "manifest.json")
            opening = _opening_states(study, method, run)
            for place in benchmarks:
                path = folder / manifest["benchmarks"][place.name]["dialogues"]
                for _, row in read_jsonl(path):
                    states: list[dict | None] = [None] * len(row["turns"])
                    if states and place.name == study.development and row["case_id"] in opening:
                        states[0] = opening[row["case_id"]](_value(place, row))
                    yield Consultation(method, run, manifest["update"], place, row, states)
            yield from _of_training(study, method, run, training)


def _of_training(study: Study, method: str, run: str, place: Place) -> Iterator[Consultation]:
    """The consultations that were kept of a run's training."""
    folder = Paths.of(study).run(method, run)
    names = ("consultations.jsonl", "candidate_groups.jsonl", "trees.jsonl")
    files = [folder / name for name in names if (folder / name).exists()]
    if not files:
        return
    job_output(study, "train", method, run).require(*(path.name for path in files))
    rows = {path.name: [row for _, row in read_jsonl(path)] for path in files}
    sampled = rows.get("consultations.jsonl", [])
    kept = {(row["update"], row["case_id"]) for row in sampled}
    compared: Groups | Trees = Groups(study.method(method), rows.get("candidate_groups.jsonl", ()))
    if study.method(method).tree:
        trees = rows.get("trees.jsonl", ())
        compared = Trees(row for row in trees if (row["update"], row["case_id"]) in kept)
    for row in sampled:
        value = _value(place, row)
        states = [compared.at(row, number, value) for number in range(len(row["turns"]))]
        yield Consultation(method, run, row["update"], place, row, states)


def _value(place: Place, row: dict) -> Value:
    """What a question is worth after some turns on a case."""
    return place.exact and partial(place.exact.value, place.case(row["case_id"]))


def _opening_states(study: Study, method: str, run: str) -> dict[str, Callable[[Value], dict]]:
    """Case id -> what the continuation study compared at its initial state."""
    folder = Paths.of(study).continuation(method, run)
    if (method, run) not in study.continued or not (folder / "manifest.json").exists():
        return {}
    job_output(study, "continuation", method, run).require()
    outcomes = read_frame(folder / "continuations.parquet", ["case_id", "candidate", "correct"])
    right = outcomes.groupby(["case_id", "candidate"])["correct"].mean()
    frame = read_frame(folder / "candidates.parquet", ["case_id", "candidate"])
    found = {}
    for case_id, part in frame.groupby("case_id", sort=False):
        rows = part.to_dict("records")
        success = [float(right[case_id, row["candidate"]]) for row in rows]
        found[str(case_id)] = partial(continued, rows, success)
    return found
