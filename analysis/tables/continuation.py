"""Whether the question of highest utility is the one that ends in the right diagnosis."""

import numpy as np

from analysis.bayes_doctor import first_questions
from analysis.collected import Collected
from analysis.continuation import (
    RULES,
    Continued,
    Gain,
    Mean,
    filtered,
    main_policy,
    mean_over_states,
    policies,
)
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, listed
from pcqc_study.intervals_over_cases import RESAMPLES

COLUMNS = (
    Column("selection", "Question selection", numeric=False),
    Column("success", "Success (%)"),
    Column("gain", "Gain (pp)", "Highest-utility over it"),
    Column("interval", "95% CI", "Highest-utility over it"),
)
GROUNDED_COLUMNS = (
    Column("comparison", "Comparison", numeric=False),
    Column("cases", "Cases"),
    Column("selected", "Selected", "Success (%)"),
    Column("comparator", "Comparator", "Success (%)"),
    Column("gain", "Δ (pp)"),
    Column("interval", "95% CI"),
)
DIFFERING_COLUMNS = (
    Column("policy", "Policy", numeric=False),
    Column("differing", "Different questions"),
    Column("states", "States"),
    Column("uniform", "Uniform", "Success (%)"),
    Column("highest", "Highest-utility", "Success (%)"),
    Column("gain", "Gain (pp)"),
    Column("interval", "95% CI"),
)
Cells = tuple[Cell, Cell]
RULED = {"uniform", "gain_uniform", "rank_correlation", "best_chance"}  # rows with a line above
SUCCESS = "Success: percent of a candidate's continuations that end in the right diagnosis."
INTERVALS = (
    f"95% intervals are percentile bootstraps over {RESAMPLES:,} resamples of a row's cases; they "
    "are about the policy as it is, not about other runs."
)
COMPARISONS = {
    "original_highest_utility_vs_executed": "Original highest-utility vs. executed question q_1",
    "eligible_highest_utility_vs_uniform": "Highest-utility vs. uniform (eligible candidates)",
    "eligible_highest_utility_vs_executed": "Highest-utility vs. executed (eligible candidates)",
}


def build(collected: Collected) -> Table:
    """Success of each selection rule, and what the highest utility gains over it."""
    policy = main_policy(collected)
    rows = []
    for rule, label in RULES.items():
        highest = rule == "highest_utility"
        mean = mean_over_states(policy.selected()[rule])
        success = Number(mean.value, best=highest) if mean else MISSING
        gain = _cells(None if highest else policy.gain_over(rule), signed=True)
        rows.append(Row(rule, (label, success, *gain), rule=highest, strong=highest))
    caption = (
        f"{SUCCESS} A row takes one candidate of each state: by chance, the one that the policy "
        "asked first, or the one with the highest utility (the scorer's probability of the right "
        f"diagnosis after the answer). {INTERVALS} {_design(collected, policy)}"
    )
    title = "Continuation-based validation of diagnostic utility."
    return Table("continuation", title, caption, COLUMNS, tuple(rows))


def grounded(collected: Collected) -> Table:
    """The paper's three comparisons where answers are grounded, with the eligible candidates."""
    policy = filtered(collected)
    rows = []
    for key, gain in policy.grounded().items():
        success = (Number(gain.selected), Number(gain.comparator)) if gain else [MISSING] * 2
        cases = _count(gain.cases if gain else 0)
        rows.append(Row(key, (COMPARISONS[key], cases, *success, *_cells(gain, signed=True))))
    whose = "The continuations are those of the table with all candidates."
    if policy.ungrounded is not None:
        whose = f"No claim is tested with these states. {_design(collected, policy)}"
    answers = policy.eligible.size
    reviewed = Number(100 * policy.reviewed / max(answers, 1), digits=1).text()
    caption = (
        f"The comparisons once more with grounded answers. {int(policy.eligible.sum()):,} of "
        f"{answers:,} candidates have an eligible answer: supported by the patient's facts, "
        "confined to what was asked, and silent about the diagnosis to be made. First row: the "
        "original choices, in cases where both are eligible. Second row: choices among eligible "
        "candidates, in cases with at least two. Third row: as the second, where the executed "
        f"question is eligible too. {SUCCESS} A person reviewed {policy.reviewed:,} of the answers "
        f"({reviewed}%). {whose} {INTERVALS}"
    )
    notes = []
    if quality := policy.filter_quality():
        made, precision, recall = quality
        notes.append(
            f"The patient was made to give {made:,} of {answers:,} answers without grounds. "
            f"The filter's precision against this truth is {precision:.3f}, its recall "
            f"{recall:.3f}; answers of the patient's own that lack grounds lower the precision."
        )
    title = "Question selection with grounded answers."
    name = "grounded_continuation"
    return Table(name, title, caption, GROUNDED_COLUMNS, tuple(rows), tuple(notes))


def by_differing(collected: Collected) -> Table:
    """Gain of the highest utility, by the number of distinct candidates."""
    rows = []
    studied = policies(collected)
    for number, policy in enumerate(studied):
        for count in (None, *range(1, policy.utility.shape[1] + 1)):
            gain = policy.gain_over("uniform", count)
            cells: list[Cell] = [policy.title, "all"] if count is None else ["", _count(count)]
            cells += [_count(gain.cases if gain else 0)]
            cells += [Number(gain.comparator), Number(gain.selected)] if gain else [MISSING] * 2
            row = (*cells, *_cells(gain, signed=True))
            rows.append(Row(f"{number}:{count or 'all'}", row, rule=count is None))
    caption = (
        "States by how many of their candidate questions differ; the same question sampled twice "
        f"counts once. {SUCCESS} Gain: of the candidate with the highest utility over a choice by "
        f"chance. {INTERVALS} " + _design(collected, *studied)
    )
    title = "Gain by how many of a state's candidates differ."
    return Table("gain_by_differing", title, caption, DIFFERING_COLUMNS, tuple(rows))


def validity(collected: Collected) -> Table:
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
        f"{best if collected.study.clinic else ''}{INTERVALS} " + _design(collected, *studied)
    )
    title = "How well utility ranks questions."
    return Table("utility_validity", title, caption, tuple(columns), tuple(rows))


def _measures(collected: Collected, policy: Continued) -> dict[str, tuple[str, Cells]]:
    """key -> (label, (value, interval)) of one policy."""
    rows: dict[str, tuple[str, Cells]] = {
        "states": ("States", (_count(len(policy.case_ids)), MISSING)),
        "replaced": ("Cases replaced", (_count(policy.manifest["replaced"]), MISSING)),
        "distinct": ("Distinct questions per state", (_mean(policy.differing)[0], MISSING)),
    }
    for rule, values in policy.selected().items():
        rows[rule] = (f"{RULES[rule]}: success (%)", _mean(values))
    for rival in ("uniform", "executed"):
        label = f"Highest-utility over {rival} (pp)"
        rows[f"gain_{rival}"] = (label, _cells(policy.gain_over(rival), signed=True))
    correlation = policy.rank_correlation()
    rows["rank_correlation"] = ("Rank correlation within state", _cells(correlation, 3, True))
    states = correlation.states if correlation else 0
    rows["correlated"] = ("States in that correlation", (_count(states), MISSING))
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


def _mean(values: np.ndarray) -> Cells:
    return _cells(mean_over_states(values))


def _count(count: int) -> Number:
    return Number(count, digits=0)


def _cells(measured: Gain | Mean | None, digits: int = 2, signed: bool = False) -> Cells:
    """A gain or a mean, and its interval; missing where no state has a value."""
    if measured is None:
        return MISSING, MISSING
    interval = measured.interval
    value = Number(measured.value, se=interval.standard_error, digits=digits, signed=signed)
    return value, Range(interval.low, interval.high, digits, signed, interval.exact)


def _design(collected: Collected, *studied: Continued) -> str:
    """What was drawn for some policies, for a caption."""
    settings = collected.study.continuation
    benchmark = collected.benchmarks[collected.study.development].title
    alike: dict[str, list[Continued]] = {}
    for policy in studied:
        manifest = policy.manifest
        wanted = (settings if policy.ungrounded is None else settings.ungrounded).states
        drawn = (
            f"{manifest['states']:,} cases of {benchmark} at their initial state, "
            f"{manifest['candidates']} candidate questions each, each continued "
            f"{manifest['continuations']} times to the diagnosis by the same policy, "
            f"{manifest['trajectories']:,} consultations in all."
        )
        if manifest["states"] != wanted:
            drawn += f" The study wanted {wanted:,} states; no more were to be had."
        alike.setdefault(drawn, []).append(policy)
    texts = []
    for drawn, same in alike.items():
        replaced = listed([f"{policy.manifest['replaced']:,}" for policy in same])
        texts.append(
            f"{listed([_at_checkpoint(policy) for policy in same])}: {drawn} {replaced} cases were "
            "skipped, as not every candidate was a question."
        )
    return " ".join(texts)


def _at_checkpoint(policy: Continued) -> str:
    """`PCQC run A at its selected update 40`; an early checkpoint's title says it already."""
    update = policy.manifest["update"]
    selected = update and not policy.early
    return f"{policy.title} at its selected update {update}" if selected else policy.title
