"""Settings of the map, `config/map.yaml`: its cells, how they are trained, and the rule."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc.errors import UserError
from pcqc.settings.load import ROOT
from pcqc.settings.yaml_reader import (
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
# What was written before the test half was trained: quantities of every cell, and the rule.
CELLS = ROOT / "config" / "map_cells.csv"
RULE = ROOT / "config" / "map_rule.json"
MOST_OPTIONS = 8
FITTING, TEST = "fitting", "test"
GRPO, TERMINAL, LOCAL, PCQC = METHODS = ("grpo", "terminal_only", "executed_local", "pcqc")


@dataclass(frozen=True, config=STRICT)
class Cell:
    """One place of the map.

    Attributes:
        noise: P(sign of another disease | disease), and P(own sign is missing).
        turns: most questions of a consultation; an answer is demanded after them.
        options: diseases of a case.
        scorer_error: P(the scorer reads a new answer the wrong way).
        patient_error: P(the patient answers wrongly), each time anew.
        question_group: G_Q, candidates at a state.
        terminal_group: G_T of PCQC, Terminal-only and Executed-local.
        grpo_group: G_T of GRPO.
        coverage: share of the states of a case's first consultation that get candidates.
        beta: weight of question credit.
    """

    noise: Annotated[float, Field(gt=0, lt=0.5)]
    turns: Annotated[int, Field(ge=1, le=MOST_OPTIONS)]
    options: Annotated[int, Field(ge=2, le=MOST_OPTIONS)]
    scorer_error: Share = 0.0
    patient_error: Share = 0.0
    question_group: Annotated[int, Field(ge=2)] = 4
    terminal_group: Annotated[int, Field(ge=2)] = 4
    grpo_group: Annotated[int, Field(ge=2)] = 32
    coverage: Share = 1.0
    beta: Positive = 1.0

    @property
    def findings(self) -> int:
        """The sign of each option, and as many findings that say nothing."""
        return 2 * self.options

    @property
    def heard(self) -> float:
        """P(an answer is not what the option's signs say), by noise and the patient together."""
        return self.noise * (1 - self.patient_error) + (1 - self.noise) * self.patient_error

    def consultations(self, method: str) -> int:
        """G_T of a method."""
        return self.grpo_group if method == GRPO else self.terminal_group

    def candidates(self, method: str) -> int:
        """G_Q of a method; 1 where only the executed question is sampled."""
        return self.question_group if method in (LOCAL, PCQC) else 1


@dataclass(frozen=True, config=STRICT)
class Axis:
    """Values of a setting; one of the three is given.

    Attributes:
        between: lowest and highest of a uniform distribution.
        by_factors: lowest and highest of a log-uniform distribution.
        among: the only values.
    """

    between: tuple[float, float] | None = None
    by_factors: tuple[float, float] | None = None
    among: tuple[int, ...] | None = None

    def at(self, place: float) -> float | int:
        """The value at a place in [0, 1), to three digits."""
        if self.among:
            return self.among[int(place * len(self.among))]
        if self.between:
            low, high = self.between
            return float(f"{low + place * (high - low):.3g}")
        low, high = self.by_factors
        return float(f"{low * (high / low) ** place:.3g}")


@dataclass(frozen=True, config=STRICT)
class Training:
    """How every cell is trained.

    Attributes:
        cases: of an update.
        updates: the budget of every method is the cost of so many full updates of PCQC with G_T and
            G_Q of 4 and candidates at every state.
        learning_rate: of Adam for groups of 4 consultations; grows with the root of the group, as
            Malladi et al. (2022) derive for Adam.
        chance_to_answer: P(answer) at each turn before training.
        evaluated: consultations by which a run's policy is judged.
    """

    cases: Count
    updates: Count
    learning_rate: Positive
    chance_to_answer: Annotated[float, Field(gt=0, lt=1)]
    evaluated: Count


@dataclass(frozen=True, config=STRICT)
class Fit:
    """How the rule is fitted and judged.

    Attributes:
        margin: points; a smaller difference is none.
        penalties: of ridge regression; leaving one cell out chooses.
    """

    margin: Positive
    penalties: Some[Positive]


@dataclass(frozen=True, config=STRICT)
class Map:
    """The whole file.

    Attributes:
        seed: of all random numbers.
        runs: trained policies of each method in each cell.
        cells: how many.
        block: how many of them one job trains.
        half: this many cells are for fitting, the next as many for testing, and so on.
        axes: setting of a cell -> its values.
        training: how every cell is trained.
        measured: cases on which quantities are measured before training.
        rule: how it is fitted and judged.
    """

    seed: int
    runs: Annotated[int, Field(ge=2)]
    cells: Count
    block: Count
    half: Count
    axes: dict[str, Axis]
    training: Training
    measured: Count
    rule: Fit

    @property
    def design(self) -> dict[str, Cell]:
        """Name -> cell."""
        from scipy.stats import qmc  # slow to load, and the workflow wants names alone

        places = qmc.Sobol(len(self.axes), seed=self.seed).random(self.cells)
        cells = {}
        for number, row in enumerate(places):
            axes = zip(self.axes.items(), row, strict=True)
            values: dict[str, Any] = {name: axis.at(place) for (name, axis), place in axes}
            cells[self.named(number)] = Cell(**values)
        return cells

    @property
    def block_names(self) -> list[str]:
        """Names of the jobs: each is that of the first cell which it trains."""
        return [self.named(number) for number in range(0, self.cells, self.block)]

    @property
    def blocks(self) -> dict[str, dict[str, Cell]]:
        """Name of a job -> the cells that it trains."""
        rows, starts = list(self.design.items()), range(0, self.cells, self.block)
        return {self.named(start): dict(rows[start : start + self.block]) for start in starts}

    def named(self, number: int) -> str:
        """A cell's name: what it is for, and its number."""
        return f"{(FITTING, TEST)[number // self.half % 2]}-{number:03d}"


def load_map(path: Path = FILE) -> Map:
    """Read the settings. Raises UserError for an unknown, missing or wrong one."""
    file = read_settings(path)
    settings = build(Map, file.data, file.error)
    for where, problem in _contradictions(settings):
        raise file.error(where, problem)
    for name, axis in settings.axes.items():

        def in_the_file(_: tuple, problem: str, name: str = name) -> UserError:
            return file.error(("axes", name), problem)

        for end in (0.0, np.nextafter(1.0, 0.0)):
            build(Cell, {"noise": 0.1, "turns": 1, "options": 2, name: axis.at(end)}, in_the_file)
    return settings


def _contradictions(settings: Map) -> Iterator[tuple[tuple[str, ...], str]]:
    known = {field.name: field for field in dataclasses.fields(Cell)}
    for name, axis in settings.axes.items():
        if name not in known:
            yield ("axes", name), f"no setting of a cell{nearest(name, known)}"
        if sum(values is not None for values in vars(axis).values()) != 1:
            yield ("axes", name), "must have one of `between`, `by_factors` and `among`"
    if settings.half % settings.block or settings.cells % settings.block:
        yield ("block",), "must divide `half` and `cells`"
