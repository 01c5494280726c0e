"""The results of each cell, beside its prediction."""

from collections.abc import Iterable, Sequence
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

    data: dict

    @property
    def name(self) -> str:
        return self["cell"]

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


def decided(cells: Sequence[TrainedCell], rates: str, budget: int) -> dict[str, str]:
    """Cell -> outcome of PCQC against GRPO, of the cells where it is decided."""
    outcomes = {cell.name: cell.outcome(GRPO, rates, budget) for cell in cells}
    return {name: outcome for name, outcome in outcomes.items() if outcome != UNDECIDED}


def load(folders: Iterable[Path]) -> list[TrainedCell]:
    """All cells, of the folders of what was trained in them."""
    return [TrainedCell(read_json(checked(folder / "cell.json"))) for folder in folders]
