"""Settings of the map, `config/map.yaml`: its cells, how they are trained, and the rule."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc.errors import UserError
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.study import Method, load_study
from pcqc.study.load import ROOT
from pcqc.study.yaml_reader import (
    STRICT,
    Count,
    Positive,
    Share,
    Some,
    build,
    nearest,
    read_settings,
)

FILE = ROOT / "config" / "map.yaml"
MOST_OPTIONS = 8
PILOT = "pilot"


@dataclass(frozen=True, config=STRICT)
class Cell:
    """One place of the map.

    Attributes:
        noise: P(sign of another disease | disease), and P(own sign is missing).
        turns: most questions of a consultation; an answer is demanded after them.
        options: diseases of a case.
        question_group: G_Q, candidates at a state.
        scorer_error: P(the scorer reads a new answer the wrong way).
        patient_error: P(the patient answers wrongly), each time anew.
    """

    noise: Annotated[float, Field(gt=0, lt=0.5)]
    turns: Annotated[int, Field(ge=1, le=MOST_OPTIONS)]
    options: Annotated[int, Field(ge=2, le=MOST_OPTIONS)]
    question_group: Annotated[int, Field(ge=2)]
    scorer_error: Share = 0.0
    patient_error: Share = 0.0

    @property
    def findings(self) -> int:
        """The sign of each option, and as many findings that say nothing."""
        return 2 * self.options

    @property
    def heard(self) -> float:
        """P(an answer is not what the option's signs say), by noise and the patient together."""
        return self.noise * (1 - self.patient_error) + (1 - self.noise) * self.patient_error


@dataclass(frozen=True, config=STRICT)
class Training:
    """How every cell is trained.

    Attributes:
        methods: names of methods in config/methods.yaml, whose group sizes and beta count.
        cases: of an update.
        budgets: ascending; each is the cost of so many full updates of PCQC with the centre's G_Q.
        budget: the one by which predictions are judged.
        learning_rate: of Adam, for all methods.
        own_rates: method -> its best rate on the pilot, with which everything is repeated.
        chance_to_answer: P(answer) at each turn before training.
        evaluated: consultations by which a run's policy is judged.
    """

    methods: Some[str]
    cases: Count
    budgets: Some[Count]
    budget: Count
    learning_rate: Positive
    own_rates: dict[str, Positive]
    chance_to_answer: Annotated[float, Field(gt=0, lt=1)]
    evaluated: Count


@dataclass(frozen=True, config=STRICT)
class Rule:
    """What is predicted, and what counts as decided.

    Attributes:
        ahead: points of predicted advantage from which PCQC is predicted to be ahead.
        scale: points of PCQC - GRPO per point of predicted advantage, by the pilot.
        margin: points; a smaller difference is none.
        states: sampled for the fidelity of credit.
    """

    ahead: Positive
    scale: float
    margin: Positive
    states: Count


@dataclass(frozen=True, config=STRICT)
class Map:
    """The whole file.

    Attributes:
        seed: of all random numbers.
        runs: trained policies of each method in each cell.
        centre: the cell that the axes go through.
        grid: two settings and their values, all combinations of which are cells.
        axes: settings and their values, changed one at a time.
        pilot: what differs from the centre in the cell on which rates were chosen.
        pilot_rates: learning rates tried there.
        training: how every cell is trained.
        rule: for predictions.
    """

    seed: int
    runs: Annotated[int, Field(ge=2)]
    centre: Cell
    grid: dict[str, list[int | float]]
    axes: dict[str, list[int | float]]
    pilot: dict[str, int | float]
    pilot_rates: Some[Positive]
    training: Training
    rule: Rule

    @property
    def cells(self) -> dict[str, Cell]:
        """Name -> cell: the grid, whose centre is one of its cells, then the axes."""
        (row, rows), (column, columns) = self.grid.items()
        changes = [{row: a, column: b} for a in rows for b in columns]
        changes += [{name: value} for name, values in self.axes.items() for value in values]
        return {
            "_".join(f"{name}-{value:g}" for name, value in change.items()): self._cell(change)
            for change in changes
        }

    def cell(self, name: str) -> Cell:
        """A cell of the map, or the pilot. Raises UserError for another name."""
        cells = {**self.cells, PILOT: self._cell(self.pilot)}
        if name not in cells:
            raise UserError(f"unknown cell '{name}'{nearest(name, self.cells)}")
        return cells[name]

    def _cell(self, change: dict[str, int | float]) -> Cell:
        return Cell(**{**dataclasses.asdict(self.centre), **change})


def load_map(path: Path = FILE) -> Map:
    """Read the settings. Raises UserError for an unknown, missing or wrong one."""
    file = read_settings(path)
    settings = build(Map, file.data, file.error)
    centre = dataclasses.asdict(settings.centre)
    pilot = {name: [value] for name, value in settings.pilot.items()}
    for group, changes in (("grid", settings.grid), ("axes", settings.axes), ("pilot", pilot)):
        for name, values in changes.items():
            place = (group, name)
            if name not in centre:
                raise file.error(place, f"no setting of a cell{nearest(name, centre)}")

            def in_the_file(_: tuple, problem: str, place: tuple = place) -> UserError:
                return file.error(place, problem)

            for value in values:
                build(Cell, {**centre, name: value}, in_the_file)
    for where, problem in _contradictions(settings):
        raise file.error(where, problem)
    return settings


def _contradictions(settings: Map) -> Iterator[tuple[tuple[str, ...], str]]:
    given, known = settings.training, load_study("paper").methods
    if len(settings.grid) != 2:
        yield ("grid",), "must have two settings, whose combinations are cells"
    if given.budget not in given.budgets:
        yield ("training", "budget"), "must be one of training.budgets"
    for name in given.methods:
        if name not in known:
            yield ("training", "methods"), f"no method '{name}'{nearest(name, known)}"
        elif not _simulated(known[name]):
            yield ("training", "methods"), f"the map cannot train '{name}'; remove it"
    if missing := set(given.methods) ^ set(given.own_rates):
        yield ("training", "own_rates"), f"must name the methods, no more: '{min(missing)}'"


def _simulated(method: Method) -> bool:
    """Whether `training.py` computes the method's credit: GRPO's, or PCQC's beside it."""
    return type(method) is Grpo or (type(method) is Pcqc and method.trained_candidates > 1)
