"""What the paper does not show: how well utility ranks questions, under each policy."""

import numpy as np

from analysis.collected import Collected
from analysis.continuation import RULES, Continued, Gain, Mean, mean_over_states, policies
from analysis.first_questions import first_questions
from analysis.statistics.bootstrap import RESAMPLES
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table
from analysis.tables.continuation import design

NAME = "utility_validity"


def build(collected: Collected) -> Table:
    """One column of values and one of intervals per policy; measures down."""
    found = policies(collected)
    columns = [Column("measure", "Measure", numeric=False)]
    for number, policy in enumerate(found):
        columns += [
            Column(f"value_{number}", "Value", policy.title),
            Column(f"interval_{number}", "95% CI", policy.title),
        ]
    measured = [_measures(collected, policy) for policy in found]
    rows = [
        Row(key, (label, *(cell for m in measured for cell in m[key][1])), rule=key in _FIRST)
        for key, (label, _) in measured[0].items()
    ]
    caption = (
        "Rank correlation: Spearman's, of utility and downstream success among a state's "
        "candidates, averaged over the states at which neither is constant. "
        + (
            "Best first question: one that no other first question beats in expected "
            "Bayes accuracy. "
            if collected.study.clinic
            else ""
        )
        + f"Intervals from {RESAMPLES:,} resamples of cases. "
        + " ".join(design(collected, policy) for policy in found)
    )
    title = "How well utility ranks questions."
    return Table(NAME, title, caption, tuple(columns), tuple(rows))


_FIRST = {"uniform", "gain_uniform", "rank_correlation", "best_chance"}
Cells = tuple[Cell, Cell]


def _measures(collected: Collected, found: Continued) -> dict[str, tuple[str, Cells]]:
    """key -> (label, (value, interval)) of one policy."""
    rows: dict[str, tuple[str, Cells]] = {
        "states": ("States", (Number(len(found.case_ids), digits=0), MISSING)),
        "replaced": ("Cases replaced", (Number(found.manifest["replaced"], digits=0), MISSING)),
        "distinct": ("Distinct questions per state", (_distinct(found), MISSING)),
    }
    for rule, values in found.selected().items():
        rows[rule] = (f"{RULES[rule]}: success (%)", _mean(mean_over_states(values)))
    for rival in ("uniform", "executed"):
        label = f"Highest-utility over {'uniform' if rival == 'uniform' else 'executed'} (pp)"
        rows[f"gain_{rival}"] = (label, _gain(found.gain_over(rival)))
    correlation = found.rank_correlation()
    rows["rank_correlation"] = ("Rank correlation within state", _mean(correlation, 3, True))
    states = correlation.states if correlation else 0
    rows["correlated"] = ("States in that correlation", (Number(states, digits=0), MISSING))
    if collected.study.clinic:
        first = first_questions(collected, found)
        label = "Best first questions among all that could be asked (%)"
        rows["best_chance"] = (label, (_mean(mean_over_states(100 * first.chance))[0], MISSING))
        for rule, hits in first.picks.items():
            label = f"{RULES[rule]}: picks a best first question (%)"
            rows[f"best_{rule}"] = (label, _mean(mean_over_states(100 * hits)))
        label = "Scorer's error against the exact probability (pp)"
        rows["scorer_error"] = (label, _mean(mean_over_states(first.scorer_error)))
    return rows


def _distinct(found: Continued) -> Cell:
    counts = np.array([len(set(row)) for row in found.questions])
    return _mean(mean_over_states(counts))[0]


def _mean(mean: Mean | None, digits: int = 2, signed: bool = False) -> Cells:
    if mean is None:
        return MISSING, MISSING
    value = Number(mean.value, digits=digits, signed=signed)
    return value, Range(mean.interval.low, mean.interval.high, digits, signed)


def _gain(gain: Gain | None) -> Cells:
    if gain is None:
        return MISSING, MISSING
    value = Number(gain.gain, signed=True)
    return value, Range(gain.interval.low, gain.interval.high)
