"""The rule: from quantities that are measured before training to points of accuracy.

Ridge regression on standardised quantities, for each of four outcomes; its error is that of leaving
one cell out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import RidgeCV

from credit_lab.map.quantities import QUANTITIES, table
from credit_lab.map.settings import GRPO, LOCAL, RULE, TERMINAL
from pcqc.errors import UserError
from pcqc.system.files import read_json, write_json

CHOSEN = "chosen"
# What is predicted, in points of accuracy -> how a sentence names it.
OUTCOMES = {
    GRPO: "PCQC less GRPO at equal cost",
    TERMINAL: "PCQC less Terminal-only at equal cost",
    LOCAL: "PCQC less Executed-local at equal cost",
    CHOSEN: "success after the candidate of the highest utility, less that after the executed one",
}
AHEAD, NONE, BEHIND = "ahead", "none", "behind"
COVERED = 0.8  # of the prediction interval


@dataclass(frozen=True)
class Prediction:
    """Of one outcome, in points: `mean`, and the `error` of a normal distribution around it."""

    mean: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Covers an outcome with a probability of 80 %."""
        half = norm.ppf((1 + COVERED) / 2) * self.error
        return self.mean - half, self.mean + half

    def above(self, margin: float) -> float:
        """Probability of an outcome above the margin."""
        return float(norm.sf(margin, self.mean, self.error))

    def outcome(self, margin: float) -> str:
        """Ahead or behind by at least the margin, or no difference."""
        if abs(self.mean) < margin:
            return NONE
        return AHEAD if self.mean > 0 else BEHIND


@dataclass(frozen=True)
class Rule:
    """A fitted rule.

    Attributes:
        centre, scale: float [quantities], by which they are standardised.
        weights: outcome -> float [1 + quantities], the mean first; points per standard deviation.
        errors: outcome -> root mean square error of leaving one cell out.
    """

    centre: list[float]
    scale: list[float]
    weights: dict[str, list[float]]
    errors: dict[str, float]

    def predict(self, row: dict[str, float]) -> dict[str, Prediction]:
        """Outcome -> prediction, from quantities by name."""
        values = (table([row])[0] - self.centre) / self.scale
        return {
            name: Prediction(float(weights[0] + values @ weights[1:]), self.errors[name])
            for name, weights in self.weights.items()
        }

    def outside(self, row: dict[str, float]) -> list[str]:
        """Quantities that lie further from the cells' mean than 2.5 standard deviations."""
        gaps = np.abs(table([row])[0] - self.centre) / self.scale
        return [name for name, gap in zip(QUANTITIES, gaps, strict=True) if gap > 2.5]

    def write(self, path: Path = RULE) -> None:
        """Write it."""
        write_json(path, {"quantities": list(QUANTITIES), **vars(self)})


def fit(
    rows: Sequence[dict[str, float]],
    outcomes: Mapping[str, Sequence[float]],
    penalties: Sequence[float],
) -> Rule:
    """Fit the rule.

    Args:
        rows: quantities of each cell.
        outcomes: name of the outcome -> points of each cell.
        penalties: of ridge regression; leaving one cell out chooses for each outcome.
    """
    x = table(rows)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    weights, errors = {}, {}
    for name, points in outcomes.items():
        model = RidgeCV(penalties).fit((x - centre) / scale, points)
        weights[name] = np.round([model.intercept_, *model.coef_], 4).tolist()
        errors[name] = round(float(-model.best_score_) ** 0.5, 4)
    return Rule(np.round(centre, 4).tolist(), np.round(scale, 4).tolist(), weights, errors)


def read_rule(path: Path = RULE) -> Rule:
    """The committed rule. Raises UserError where there is none, or of other quantities."""
    if not path.exists():
        raise UserError(f"{path}: no rule yet; run `credit-lab map fit`")
    data = read_json(path)
    if data.pop("quantities") != list(QUANTITIES):
        raise UserError(f"{path}: a rule of other quantities; run `credit-lab map fit`")
    return Rule(**data)
