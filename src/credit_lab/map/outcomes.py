"""The results of each cell, beside its prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from credit_lab.map.exact import AHEAD, BEHIND, NONE
from credit_lab.map.job import SHARED
from pcqc.results.manifest import checked
from pcqc.system.files import read_json

LEVEL = 0.95
UNDECIDED = "undecided"
GRPO, TERMINAL, PCQC = "grpo", "terminal_only", "pcqc"


@dataclass(frozen=True)
class Difference:
    """Of two methods' accuracy in points: mean over paired runs, with a 95 % t interval."""

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def outcome(self, margin: float) -> str:
        """Ahead or behind by at least the margin, no difference within it, or undecided."""
        if abs(self.mean) >= margin and self.sign:
            return AHEAD if self.sign > 0 else BEHIND
        return NONE if max(-self.low, self.high) <= margin else UNDECIDED


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The first less the second, run by run."""
    gaps = np.subtract(first, second)
    half = stats.t.ppf((1 + LEVEL) / 2, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5
    return Difference(float(gaps.mean()), float(gaps.mean() - half), float(gaps.mean() + half))


@dataclass(frozen=True)
class TrainedCell:
    """One cell's file; see `job.train_cell`."""

    name: str
    data: dict

    def __getitem__(self, key: str):
        return self.data[key]

    def number(self, key: str) -> float:
        """A number that the prediction was made from."""
        return float(self["prediction"][key])

    def runs(
        self, method: str, rates: str = SHARED, measure: str = "accuracy", budget: int | None = None
    ) -> list[float]:
        """A measure of every run after a budget; after the judged one by default."""
        place = self["budgets"].index(self["budget"] if budget is None else budget)
        return self["trained"][rates][method][measure][place]

    def ahead_of(
        self, rival: str, rates: str = SHARED, measure: str = "accuracy", budget: int | None = None
    ) -> Difference:
        """PCQC less a rival."""
        own, other = (self.runs(method, rates, measure, budget) for method in (PCQC, rival))
        return paired(own, other)

    def outcome(self, rival: str = GRPO, rates: str = SHARED, budget: int | None = None) -> str:
        """Of PCQC against a rival, by the rule's margin."""
        return self.ahead_of(rival, rates, budget=budget).outcome(self["rule"]["margin"])


@dataclass(frozen=True)
class Hits:
    """How often predictions were right among the cells where the difference is decided.

    Attributes:
        right: of the decided.
        decided: cells.
        always: outcome -> cells that have it: how often it would be right if always predicted.
    """

    right: int
    decided: int
    always: dict[str, int]


def hits(cells: Sequence[TrainedCell], rule: str, rates: str, budget: int | None = None) -> Hits:
    """Of one rule, against PCQC less GRPO."""
    pairs = [(cell.outcome(GRPO, rates, budget), cell["prediction"][rule]) for cell in cells]
    decided = [(outcome, predicted) for outcome, predicted in pairs if outcome != UNDECIDED]
    outcomes = [outcome for outcome, _ in decided]
    return Hits(
        sum(outcome == predicted for outcome, predicted in decided),
        len(decided),
        {outcome: outcomes.count(outcome) for outcome in (AHEAD, NONE, BEHIND)},
    )


def load(folders: Mapping[str, Path]) -> list[TrainedCell]:
    """All cells; name -> folder of what was trained in it."""
    return [
        TrainedCell(name, read_json(checked(folder / "cell.json")))
        for name, folder in folders.items()
    ]
