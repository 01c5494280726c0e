"""What the paper does not show: how well utility ranks questions, under each policy."""

import numpy as np

from analysis.collected import Collected
from analysis.continuation import RULES, Continued, Mean, mean_over_states, policies
from analysis.instrument import first_questions
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table
from analysis.tables.continuation import INTERVALS, SUCCESS, design, gain_cells

RULED = {"uniform", "gain_uniform", "rank_correlation", "best_chance"}  # rows with a line above
Cells = tuple[Cell, Cell]


def build(collected: Collected) -> Table:
    """One column of values and one of intervals per policy; measures down."""
    studied = policies(collected)
    columns = [Column("measure", "Measure", numeric=False)]
    for number, policy in enumerate(studied):
        columns.append(Column(f"value_{number}", "Value", policy.title))
        columns.append(Column(f"interval_{number}", "95% CI", policy.title))
    measured = [_measures(collected, policy) for policy in studied]
    rows = [
        Row(key, (label, *(cell for m in measured for cell in m[key][1])), rule=key in RULED)
        for key, (label, _) in measured[0].items()
    ]
    best = "Best first question: none other gives a higher expected accuracy of a Bayes diagnosis. "
    caption = (
        f"A pair of columns for each policy. {SUCCESS} Utility: the scorer's probability of the "
        "right diagnosis after the question's answer. Rank correlation: Spearman's, of utility and "
        "success among a state's candidates, mean over the states at which neither is constant. "
        f"{best if collected.study.clinic else ''}{INTERVALS} " + design(collected, *studied)
    )
    title = "How well utility ranks questions."
    return Table("utility_validity", title, caption, tuple(columns), tuple(rows))


def _measures(collected: Collected, policy: Continued) -> dict[str, tuple[str, Cells]]:
    """key -> (label, (value, interval)) of one policy."""
    rows: dict[str, tuple[str, Cells]] = {
        "states": ("States", _count(len(policy.case_ids))),
        "replaced": ("Cases replaced", _count(policy.manifest["replaced"])),
        "distinct": ("Distinct questions per state", (_mean(policy.differing)[0], MISSING)),
    }
    for rule, values in policy.selected().items():
        rows[rule] = (f"{RULES[rule]}: success (%)", _mean(values))
    for rival in ("uniform", "executed"):
        label = f"Highest-utility over {rival} (pp)"
        rows[f"gain_{rival}"] = (label, gain_cells(policy.gain_over(rival)))
    correlation = policy.rank_correlation()
    rows["rank_correlation"] = ("Rank correlation within state", _cells(correlation, 3, True))
    states = correlation.states if correlation else 0
    rows["correlated"] = ("States in that correlation", _count(states))
    if collected.study.clinic:
        first = first_questions(collected, policy)
        label = "Best first questions among all that could be asked (%)"
        rows["best_chance"] = (label, (_mean(100 * first.chance)[0], MISSING))
        for rule, hits in first.picks.items():
            label = f"{RULES[rule]}: picks a best first question (%)"
            rows[f"best_{rule}"] = (label, _mean(100 * hits))
        label = "Scorer's error against the exact probability (pp)"
        rows["scorer_error"] = (label, _mean(first.scorer_error))
    return rows


def _count(count: int) -> Cells:
    return Number(count, digits=0), MISSING


def _mean(values: np.ndarray) -> Cells:
    return _cells(mean_over_states(values))


def _cells(mean: Mean | None, digits: int = 2, signed: bool = False) -> Cells:
    """A mean and its interval; missing where no state has a value."""
    if mean is None:
        return MISSING, MISSING
    value = Number(mean.value, digits=digits, signed=signed)
    return value, Range(mean.interval.low, mean.interval.high, digits, signed)
