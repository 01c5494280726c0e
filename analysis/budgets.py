"""Budgets at which all runs of a study can be compared, and the checkpoint that each has by then.

The least budget of a kind is the most that any run spent to its first checkpoint, so that every run
has one; the largest is the least that any spent to its last; between them stands their geometric
mean. Where the first is not below the second, there is the second alone, which some run may miss.
"""

from dataclasses import dataclass

from analysis.collected import Collected
from analysis.table import Number


@dataclass(frozen=True)
class Cost:
    """A cumulative column of the updates, and how its amounts are printed."""

    unit: str
    factor: float = 1.0
    digits: int = 0

    def number(self, amount: float) -> Number:
        """An amount in the printed unit."""
        return Number(self.factor * amount, digits=self.digits)


COSTS = {
    "trajectories": Cost("consultations"),
    "sampled_tokens": Cost("million tokens", 1e-6, 3),
    "device_hours": Cost("device-hours", digits=4),
}
RULE = (
    "The least budget of a kind is the most that any run spent to its first checkpoint, the "
    "largest the least that any spent to its last, the middle one their geometric mean; if the "
    "first is not below the second, there is the second alone."
)
COUNTED = (
    "Consultations are complete ones of training; tokens are those sampled by actor and patient, "
    "candidates included; device-hours are of all devices. Shared SFT and validation are excluded."
)


@dataclass(frozen=True)
class Budgets:
    """Budgets of one kind.

    Attributes:
        amounts: `least`, `middle` and `largest` -> amount, in the unit of the updates' column.
        spent: (method, run) -> validated update -> amount spent by then.
    """

    amounts: dict[str, float]
    spent: dict[tuple[str, str], dict[int, float]]

    def reached(self, method: str, run: str, budget: str) -> int | None:
        """The last validated update within a budget; None where it allows none."""
        # Amounts are sums of floats, and one of them is the budget itself.
        most = self.amounts[budget] * (1 + 1e-9)
        return max((u for u, cost in self.spent[method, run].items() if cost <= most), default=None)


def trained(collected: Collected) -> list[str]:
    """Methods and controls that are trained by RL, in the study's order."""
    return [m for m in collected.methods() if collected.study.method(m).kind == "rl"]


def budgets(collected: Collected, cost: str) -> Budgets | None:
    """Budgets of a kind of `COSTS`; None where some run did not record it, or none was trained."""
    if cost not in collected.updates:
        return None
    pairs = [(method, run) for method in trained(collected) for run in collected.runs(method)]
    spent = {pair: _spent(collected, *pair, cost) for pair in pairs}
    if not pairs or not all(spent.values()):
        return None
    least = max(by_update[min(by_update)] for by_update in spent.values())
    largest = min(by_update[max(by_update)] for by_update in spent.values())
    amounts = {"least": least, "middle": (least * largest) ** 0.5, "largest": largest}
    return Budgets(amounts if least < largest else {"largest": largest}, spent)


def _spent(collected: Collected, method: str, run: str, cost: str) -> dict[int, float]:
    """Validated update -> what the run had spent by then."""
    validated = collected.curve(method, run, "validation", "accuracy").index
    spent = collected.curve(method, run, "update", cost)
    return {int(update): float(spent[update]) for update in validated if update in spent.index}
