"""What came out in each cell, with intervals over runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy import stats

from credit_lab.map.before import read_cells
from credit_lab.map.rule import AHEAD, BEHIND, CHOSEN, NONE
from credit_lab.map.settings import PCQC
from pcqc.recipes.manifest import checked
from pcqc.system.files import read_json

LEVEL = 0.95
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Difference:
    """In points: mean over runs, with a 95 % t interval."""

    mean: float
    low: float
    high: float

    def outcome(self, margin: float) -> str:
        """Ahead or behind by at least the margin, no difference within it, or undecided."""
        if abs(self.mean) >= margin and (self.low > 0 or self.high < 0):
            return AHEAD if self.mean > 0 else BEHIND
        return NONE if max(-self.low, self.high) <= margin else UNDECIDED


def over_runs(gaps: Sequence[float] | np.ndarray) -> Difference:
    """Mean and interval of a difference in every run."""
    mean = float(np.mean(gaps))
    half = stats.t.ppf((1 + LEVEL) / 2, len(gaps) - 1) * np.std(gaps, ddof=1) / len(gaps) ** 0.5
    return Difference(mean, mean - half, mean + half)


class JudgedCell(Protocol):
    """What the rule is held against: quantities before training, and what came out."""

    @property
    def quantities(self) -> dict[str, float]:
        """By name, as in `quantities.QUANTITIES`."""

    def difference(self, outcome: str) -> Difference:
        """What came out of one of `rule.OUTCOMES`."""


@dataclass(frozen=True)
class TrainedCell:
    """A cell: name, settings, quantities before training, and method -> measure -> runs."""

    name: str
    settings: dict[str, float]
    quantities: dict[str, float]
    trained: dict[str, dict[str, list[float]]]

    def difference(self, outcome: str) -> Difference:
        """What came out of one of `rule.OUTCOMES`."""
        own = self.trained[PCQC]
        if outcome == CHOSEN:
            return over_runs(own["chosen"])
        return over_runs(np.subtract(own["accuracy"], self.trained[outcome]["accuracy"]))


def load(folders: Iterable[Path]) -> list[TrainedCell]:
    """All cells, of the folders of the blocks that were trained."""
    known, cells = read_cells(), []
    for folder in folders:
        for name, row in read_json(checked(folder / "cells.json")).items():
            cells.append(TrainedCell(name, row["settings"], known[name], row["trained"]))
    return cells
