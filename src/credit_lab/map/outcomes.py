"""What came out in each cell of the map, beside what was predicted of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from pcqc.study.manifest import checked
from pcqc.system.files import read_json

LEVEL = 0.95
AHEAD, NONE, BEHIND, UNDECIDED = "ahead", "none", "behind", "undecided"
SHARED, OWN = "shared_rate", "own_rates"
GRPO, TERMINAL, PCQC = "grpo", "terminal_only", "pcqc"
RULES = {"predicted": "rule", "predicted_scaled": "scaled rule"}


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


def paired(one: Sequence[float], other: Sequence[float]) -> Difference:
    """The first less the second, by runs."""
    gaps = np.subtract(one, other)
    half = stats.t.ppf((1 + LEVEL) / 2, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5
    return Difference(float(gaps.mean()), float(gaps.mean() - half), float(gaps.mean() + half))


def outcome(found: Difference, margin: float) -> str:
    """Ahead or behind by at least the margin, no difference within it, or undecided."""
    if abs(found.mean) >= margin and found.sign:
        return AHEAD if found.sign > 0 else BEHIND
    return NONE if max(-found.low, found.high) <= margin else UNDECIDED


@dataclass(frozen=True)
class Trained:
    """One cell's file."""

    name: str
    data: dict

    def __getitem__(self, key: str):
        return self.data[key]

    def number(self, key: str) -> float:
        """A number that the prediction was made from."""
        return float(self["prediction"][key])

    def runs(self, method: str, kind: str, measure: str, budget: int | None = None) -> list[float]:
        """A measure of every run after a budget; after the judged one by default."""
        place = self["budgets"].index(self["budget"] if budget is None else budget)
        return self["trained"][kind][method][measure][place]

    def mean(self, method: str, measure: str = "accuracy") -> float:
        return float(np.mean(self.runs(method, SHARED, measure)))

    def ahead_of(
        self,
        rival: str,
        kind: str = SHARED,
        measure: str = "accuracy",
        budget: int | None = None,
    ) -> Difference:
        """PCQC less a rival."""
        one, other = (self.runs(m, kind, measure, budget) for m in (PCQC, rival))
        return paired(one, other)

    def outcome(self, rival: str = GRPO, kind: str = SHARED, budget: int | None = None) -> str:
        """By the rule's margin."""
        return outcome(self.ahead_of(rival, kind, budget=budget), self["rule"]["margin"])


@dataclass(frozen=True)
class Hits:
    """How often predictions were right among the cells where the difference is decided.

    Attributes:
        right: of the decided.
        decided: cells.
        always: of the decided, how often each single answer would be right.
    """

    right: int
    decided: int
    always: dict[str, int]


def hits(cells: Sequence[Trained], rule: str, kind: str, budget: int | None = None) -> Hits:
    """Of one rule, against PCQC less GRPO."""
    found = [(cell.outcome(GRPO, kind, budget), cell["prediction"][rule]) for cell in cells]
    decided = [pair for pair in found if pair[0] != UNDECIDED]
    always = {one: sum(came == one for came, _ in decided) for one in (AHEAD, NONE, BEHIND)}
    return Hits(sum(came == said for came, said in decided), len(decided), always)


def load(folders: Mapping[str, Path]) -> list[Trained]:
    """All cells; name -> folder of what was trained in it."""
    return [
        Trained(name, read_json(checked(folder / "cell.json"))) for name, folder in folders.items()
    ]
