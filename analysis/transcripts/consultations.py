"""Every consultation of a study that is kept: those of the evaluations, and samples of training.

They are read from the runs' own files.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from analysis.load import CasesById, known_runs, read_world
from analysis.transcripts.candidates import Groups, Trees, Value, continued
from analysis.transcripts.exact import ExactValues
from pcqc.evaluation.choice import MAIN
from pcqc_study.runs import Run
from pcqc_study.study_file import Study

TRAINING = "training"


@dataclass(frozen=True)
class Place:
    """Where consultations were held: a benchmark, or training.

    Attributes:
        name: the benchmark's, or `training`.
        title: for people.
        study: whose cases they are.
        exact: what is known exactly of its cases, in the clinic.
    """

    name: str
    title: str
    study: Study
    exact: ExactValues | None

    @cached_property
    def cases(self) -> CasesById:
        return CasesById(self.study, self.name)


@dataclass(frozen=True)
class Consultation:
    """One consultation as the page has it.

    Attributes:
        method, run: whose it is.
        update: the checkpoint's, or that of training.
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

    def contents(self) -> dict[str, Any]:
        """What the page shows of it, beside its case."""
        turns, exact = self.row["turns"], self.place.exact
        shown = []
        for number, turn in enumerate(turns):
            part = {"said": turn["response"], "kind": turn["action"], "answer": turn["answer"]}
            if exact:
                case = self.place.cases[self.row["case_id"]]
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
    world = read_world(study) if study.synthetic else None

    def exact(base_rates: str) -> ExactValues | None:
        return ExactValues(world, world.rates(base_rates)) if world else None

    benchmarks = [
        Place(name, benchmark.title, study, exact(benchmark.base_rates))
        for name, benchmark in study.benchmarks.items()
    ]
    return [*benchmarks, Place(TRAINING, "Training", study, exact("uniform"))]


def consultations(study: Study, held_at: list[Place]) -> Iterator[Consultation]:
    """All of every known method, control and ablation, run by run.

    Of a run from an archive there are those of the development benchmark alone.

    Raises:
        UserError: a file is not the one that its job wrote.
    """
    *benchmarks, training = held_at
    for run in known_runs(study):
        opening = opening_candidates(study, run)
        update = run.evaluation["update"]
        for place in benchmarks:
            for row in run.rows("evaluate", run.evaluation["benchmarks"][place.name]["dialogues"]):
                states: list[dict | None] = [None] * len(row["turns"])
                if states and place.name == study.development and row["case_id"] in opening:
                    states[0] = continued(opening[row["case_id"]], _value(place, row))
                yield Consultation(run.method, run.run, update, place, row, states)
        yield from _of_training(study, run, training)


def opening_candidates(study: Study, run: Run) -> dict[str, list[dict]]:
    """Case id -> candidates of the continuation study at its initial state."""
    if (run.method, run.run) not in study.continued:
        return {}
    rows = run.continuation()
    by_case = rows[rows["set"] == MAIN].groupby("case_id", sort=False)
    return {str(case_id): candidates.to_dict("records") for case_id, candidates in by_case}


def _of_training(study: Study, run: Run, place: Place) -> Iterator[Consultation]:
    """The consultations that were kept of a run's training."""
    method = study.method(run.method)
    sampled = list(run.rows("train", "consultations.jsonl"))
    kept = {(row["update"], row["case_id"]) for row in sampled}
    compared: Groups | Trees = Groups(method, run.rows("train", "candidate_groups.jsonl"))
    if "trees" in method.records:
        trees = run.rows("train", "trees.jsonl")
        compared = Trees(row for row in trees if (row["update"], row["case_id"]) in kept)
    for row in sampled:
        value = _value(place, row)
        states = [compared.at(row, number, value) for number in range(len(row["turns"]))]
        yield Consultation(run.method, run.run, row["update"], place, row, states)


def _value(place: Place, row: dict) -> Value:
    """What a question is worth after some turns on a case."""
    return place.exact and partial(place.exact.value, place.cases[row["case_id"]])
