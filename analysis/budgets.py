"""Equal budgets of training, and what each run had learned when it had spent them.

The largest budget of a kind is the least that any run spent which made all its updates; the others
are a half and a quarter of it. A run that levelled off before stays what it was at its last
checkpoint: that is what levelling off means, and else the shortest run would set the budget. If
all levelled off, the largest budget is the most that any spent. Between two checkpoints a run is
taken to learn evenly: its outcomes at a budget lie on the straight line between those of the
checkpoints before and after. Every run starts as Shared SFT, which has spent nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.collected import METRICS, Collected
from analysis.statistics.estimates import Estimate, over_runs
from analysis.table import Number

START = "shared_sft"  # what every trained method starts from
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


WORK, CLOCK = "sampled_tokens", "device_hours"
COSTS = {
    "trajectories": Cost("consultations"),
    WORK: Cost("million tokens", 1e-6, 3),
    CLOCK: Cost("device-hours", digits=4),
}
RULE = (
    "The largest budget of a kind is the least that any run spent which made all its updates (if "
    "none did, the most that any spent), the others are a half and a quarter of it. A run that "
    "levelled off before stays what it was at its last checkpoint. Between checkpoints outcomes "
    "are taken from the straight line between them; a run starts as Shared SFT, at no cost."
)
COUNTED = (
    "Consultations are complete ones of training; tokens are those sampled by actor and patient, "
    "candidates included; device-hours are of all devices, at the pace (tokens an hour) of each "
    "method's fastest run, since others may be of a slower machine. Shared SFT and validation are "
    "excluded."
)

# (method, run) -> validated update -> an amount spent by then.
Spent = Mapping[tuple[str, str], Mapping[int, float]]


@dataclass(frozen=True)
class Budgets:
    """Budgets of one kind.

    Attributes:
        amounts: `quarter`, `half` and `whole` -> amount, in the unit of the updates' column.
        spent: what the runs under each base model had spent, the study's own first.
    """

    amounts: dict[str, float]
    spent: tuple[Spent, ...]

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

    None where some run did not record the cost, or none was trained or spent anything.
    """
    spent = tuple(_spent(one, cost) for one in collected.on_each_base)
    if not all(runs and all(runs.values()) for runs in spent):
        return None
    totals = [
        (max(by_update.values()), one.levelled_off(*run))
        for one, runs in zip(collected.on_each_base, spent, strict=True)
        for run, by_update in runs.items()
    ]
    whole = [total for total, levelled in totals if not levelled]
    largest = min(whole) if whole else max(total for total, _ in totals)
    if not largest:
        return None
    return Budgets({name: share * largest for name, share in SHARES.items()}, spent)


def start_of(collected: Collected, metric: str) -> float | None:
    """What Shared SFT has of a validated metric; None where its evaluation does not say.

    In the printed unit: percent, questions.
    """
    if metric not in METRICS or START not in collected.methods():
        return None
    return collected.estimate(START, collected.study.development, metric).mean


def estimate_at(
    collected: Collected,
    method: str,
    metric: str,
    weights: Mapping[str, Mapping[int, float]],
    factor: float = 1.0,
) -> Estimate | None:
    """A validated metric of a method between updates, mean and sample SD over its runs.

    None where some run's is unknown: the mean of the others would be of other runs than stand
    beside it.

    Args:
        weights: run -> updates with their weights.
        factor: from the unit of the metric's curve to that of the estimate.
    """
    values = [_value_at(collected, method, run, metric, at) for run, at in weights.items()]
    if None in values:
        return None
    return over_runs([factor * value for value in values])


def _value_at(
    collected: Collected, method: str, run: str, metric: str, weights: Mapping[int, float]
) -> float | None:
    """A validated metric of a run between updates, in the unit of its curve; None if unknown."""
    curve = collected.curve(method, run, "validation", metric)
    known = {int(update): float(value) for update, value in curve.items()}
    if 0 in weights and (start := start_of(collected, metric)) is not None:
        known[0] = start / METRICS[metric][1]
    if not weights.keys() <= known.keys():
        return None
    return sum(weight * known[update] for update, weight in weights.items())


def amount_at(spent: Spent, method: str, run: str, weights: Mapping[int, float]) -> float:
    """What a run had spent between updates."""
    return sum(weight * spent[method, run].get(update, 0.0) for update, weight in weights.items())


def at_budget(collected: Collected, found: Budgets, budget: str) -> Collected:
    """The runs as they were at a budget, on the development benchmark, under every base model."""
    every = enumerate(collected.on_each_base)
    first, *others = (_at(one, found, budget, base) for base, one in every)
    return replace(first, others=tuple(others))


def _at(collected: Collected, found: Budgets, budget: str, base: int) -> Collected:
    """The runs under one base model; methods without training are left out."""
    there, name = collected.on_development(), collected.study.development
    start = there.predictions[
        (there.predictions["method"] == START) & (there.predictions["benchmark"] == name)
    ]
    rows = []
    for method, run in found.spent[base]:
        kept = collected.validations
        kept = kept[(kept["method"] == method) & (kept["run"] == run)]
        outcomes = pd.concat([kept, start.assign(update=0)])
        mixed = _mixed(outcomes, found.weights(method, run, budget, base))
        rows.append(mixed.assign(method=method, run=run, benchmark=name))
    return replace(there, predictions=pd.concat(rows), others=())


def _mixed(outcomes: pd.DataFrame, weights: Mapping[int, float]) -> pd.DataFrame:
    """Per case the weighted mean of its outcomes at some updates."""
    columns = [column for column, _ in METRICS.values()]
    parts = [
        weight * outcomes[outcomes["update"] == update].set_index("case_id")[columns].astype(float)
        for update, weight in weights.items()
    ]
    return sum(parts[1:], parts[0]).reset_index()


def _spent(collected: Collected, cost: str) -> dict[tuple[str, str], dict[int, float]]:
    """What each run had spent by each of its validated updates."""
    if cost not in collected.updates:
        return {}
    found = {}
    for method in trained(collected):
        runs = collected.runs(method)
        paces = {run: _pace(collected, method, run) if cost == CLOCK else 1.0 for run in runs}
        for run in runs:
            validated = collected.curve(method, run, "validation", "accuracy").index
            spent = collected.curve(method, run, "update", cost)
            spent = spent * paces[run] / max(paces.values())
            found[method, run] = {int(u): float(spent[u]) for u in validated if u in spent.index}
    return found


def _pace(collected: Collected, method: str, run: str) -> float:
    """Tokens that a run sampled in a device-hour; 1 where unknown."""
    work, clock = (collected.curve(method, run, "update", cost) for cost in (WORK, CLOCK))
    return float(work.iloc[-1] / clock.iloc[-1]) if len(work) and len(clock) else 1.0
