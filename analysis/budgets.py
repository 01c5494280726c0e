"""Equal budgets of training, and what each run had learned when it had spent them.

The largest budget of a kind is the smallest total of the runs that made all their updates. The
others are a half and a quarter of it. A run that levelled off and ended early keeps its last
checkpoint; otherwise the shortest run would set the budget. If all runs levelled off, the largest
budget is the largest total. A run's outcomes at a budget lie on the straight line between those of
the checkpoints before and after it. Every run starts as Shared SFT, which has spent nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.collected import Collected
from analysis.metrics import METRICS, OUTCOMES
from analysis.notices import in_words
from analysis.statistics.estimates import Estimate, over_runs
from analysis.table import Number
from analysis.training_flops import COMPUTE
from pcqc_clinic.quality import EARLY
from pcqc_study.study_file import START

# Metric of a validation -> factor to its printed unit: percent, or questions.
VALIDATED = {"accuracy": 100.0, "best_questions": 100.0, "turns": 1.0}
SHARES = {"quarter": 0.25, "half": 0.5, "whole": 1.0}


@dataclass(frozen=True)
class Cost:
    """A cumulative column of the updates, and how its amounts are printed."""

    unit: str
    factor: float = 1.0
    digits: int = 0

    def number(self, amount: float) -> Number:
        """An amount in the printed unit."""
        return Number(self.factor * amount, digits=self.digits)

    def text(self, amount: float) -> str:
        """`200 consultations`."""
        return f"{self.number(amount).text()} {self.unit}"


COSTS = {
    "trajectories": Cost("consultations"),
    "sampled_tokens": Cost("million tokens", 1e-6, 3),
    COMPUTE: Cost("TFLOPs", 1e-12, 3),
}
COUNTED = (
    "Consultations: the complete ones of training. Tokens: all that actor and patient sampled, "
    "candidate questions and their answers too. FLOPs: counted from the models' sizes and the "
    "tokens that each role read and sampled and that the learner trained on; a prompt counts whole "
    "each time it is read. Training Shared SFT and validating count nothing."
)

BEST_QUESTIONS = (
    f" Best questions: percent of the first {in_words(EARLY)} answered questions that no other "
    "question would have beaten."
)

# (method, run) -> validated update -> an amount spent by then.
Spent = Mapping[tuple[str, str], Mapping[int, float]]


@dataclass(frozen=True)
class Budgets:
    """Budgets of one kind.

    Attributes:
        amounts: `quarter`, `half` and `whole` -> amount, in the unit of the updates' column.
        spent: what the runs under each base model had spent, the study's own first.
        levelled: run -> whether it levelled off before its last update.
    """

    amounts: dict[str, float]
    spent: tuple[Spent, ...]
    levelled: tuple[bool, ...] = ()

    def weights(self, method: str, run: str, budget: str, base: int = 0) -> dict[int, float]:
        """The validated updates around a budget (0: Shared SFT), with weights that sum to 1.

        The last one for a run that had ended before.
        """
        by_update = {0: 0.0, **self.spent[base][method, run]}
        updates, amount = sorted(by_update), self.amounts[budget]
        costs = [by_update[update] for update in updates]
        if amount > costs[-1]:
            return {updates[-1]: 1.0}
        after = int(np.searchsorted(costs, amount))
        share = (amount - costs[after - 1]) / (costs[after] - costs[after - 1])
        both = {updates[after - 1]: 1 - share, updates[after]: share}
        return {update: weight for update, weight in both.items() if weight}


def trained(collected: Collected) -> list[str]:
    """Methods and controls that are trained by RL, in the study's order."""
    return [m for m in collected.methods() if collected.study.method(m).kind == "rl"]


def budgets(collected: Collected, cost: str) -> Budgets | None:
    """Budgets of a kind of `COSTS`, the same for all base models.

    None where some run did not record the cost, or none was trained or spent anything; and where no
    run has two checkpoints, since a straight line through a whole training measures nothing.
    """
    spent = tuple(_spent(each, cost) for each in collected.on_each_base)
    if not all(runs and all(runs.values()) for runs in spent):
        return None
    if all(len(by_update) < 2 for runs in spent for by_update in runs.values()):
        return None
    totals = [
        (max(by_update.values()), each.levelled_off(*run))
        for each, runs in zip(collected.on_each_base, spent, strict=True)
        for run, by_update in runs.items()
    ]
    whole = [total for total, levelled in totals if not levelled]
    largest = min(whole) if whole else max(total for total, _ in totals)
    if not largest:
        return None
    amounts = {name: share * largest for name, share in SHARES.items()}
    return Budgets(amounts, spent, tuple(levelled for _, levelled in totals))


def rule(kinds: Iterable[Budgets], of: str = "") -> str:
    """How large the largest budget of each kind is, and what a run was at it, for a caption.

    Args:
        kinds: the budgets.
        of: whose runs set them, ` of the two methods`.
    """
    levelled = [each for budgets in kinds for each in budgets.levelled]
    if not any(levelled):
        largest, ended = f"cheapest run{of}", ""
    else:
        runs = "dearest run{}" if all(levelled) else "cheapest run{} that made all its updates"
        largest = runs.format(of)
        ended = " A run whose validation had levelled off before keeps its last checkpoint."
    return (
        f"The largest budget of a kind is what the {largest} cost. At a cost between two "
        "checkpoints a result is interpolated linearly; every run starts as Shared SFT, at cost "
        f"zero.{ended}"
    )


def start_of(collected: Collected, metric: str) -> float | None:
    """Shared SFT's value of a metric; None where its evaluation does not say.

    In the printed unit: percent, questions.
    """
    if metric not in METRICS or START not in collected.methods():
        return None
    return collected.average(START, [collected.study.development], metric).mean


def estimate_at(
    collected: Collected,
    method: str,
    metric: str,
    weights: Mapping[str, Mapping[int, float]],
) -> Estimate | None:
    """A metric of `VALIDATED` of a method between updates, mean and sample SD over its runs.

    None where the value of a run is unknown: a mean of the rest could not be compared.

    Args:
        weights: run -> updates with their weights.
    """
    values, start, factor = [], start_of(collected, metric), VALIDATED[metric]
    for run, at in weights.items():
        curve = collected.curve(method, run, "validation", metric)
        known = {int(update): float(value) for update, value in curve.items()}
        if start is not None:
            known.setdefault(0, start / factor)
        if not at.keys() <= known.keys():
            return None
        values.append(factor * sum(weight * known[update] for update, weight in at.items()))
    return over_runs(values)


def at_budget(collected: Collected, budgets: Budgets, budget: str) -> Collected:
    """The runs as they were at a budget, on the development benchmark, under every base model.

    Methods without training are left out.
    """
    columns, bases = list(OUTCOMES), []
    for base, each in enumerate(collected.on_each_base):
        cut, name = each.on_development(), each.study.development
        rows = cut.predictions
        start = rows[(rows["method"] == START) & (rows["benchmark"] == name)].assign(update=0)
        mixed = []
        for method, run in budgets.spent[base]:
            kept = each.validations
            kept = kept[(kept["method"] == method) & (kept["run"] == run)]
            outcomes = pd.concat([kept, start])
            # Per case the weighted mean of its outcomes at the updates around the budget.
            parts = [
                weight
                * outcomes[outcomes["update"] == update].set_index("case_id")[columns].astype(float)
                for update, weight in budgets.weights(method, run, budget, base).items()
            ]
            means = sum(parts[1:], parts[0]).reset_index()
            mixed.append(means.assign(method=method, run=run, benchmark=name))
        bases.append(replace(cut, predictions=pd.concat(mixed), others=()))
    return replace(bases[0], others=tuple(bases[1:]))


def _spent(collected: Collected, cost: str) -> dict[tuple[str, str], dict[int, float]]:
    """What each run had spent by each of its validated updates."""
    if cost not in collected.updates:
        return {}
    spent_by = {}
    for method in trained(collected):
        for run in collected.runs(method):
            validated = collected.curve(method, run, "validation", "accuracy").index
            spent = collected.curve(method, run, "update", cost)
            spent_by[method, run] = {int(u): float(spent[u]) for u in validated if u in spent.index}
    return spent_by
