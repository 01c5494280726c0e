"""Whether the question of highest utility is the one that ends in the right diagnosis."""

from analysis.collected import Collected
from analysis.continuation import (
    RULES,
    Continued,
    Gain,
    filtered,
    main_policy,
    mean_over_states,
    policies,
)
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, listed
from pcqc.evaluation.intervals_over_cases import RESAMPLES

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
        gain = gain_cells(None if highest else policy.gain_over(rule))
        rows.append(Row(rule, (label, success, *gain), rule=highest, strong=highest))
    caption = (
        f"{SUCCESS} A row takes one candidate of each state: by chance, the one that the policy "
        "asked first, or the one with the highest utility (the scorer's probability of the right "
        f"diagnosis after the answer). {INTERVALS} {design(collected, policy)}"
    )
    title = "Continuation-based validation of diagnostic utility."
    return Table("continuation", title, caption, COLUMNS, tuple(rows))


def grounded(collected: Collected) -> Table:
    """The paper's three comparisons where answers are grounded, with the eligible candidates."""
    policy = filtered(collected)
    rows = []
    for key, gain in policy.grounded().items():
        counts: list[Cell] = [Number(0, digits=0), MISSING, MISSING]
        if gain:
            counts = [Number(gain.cases, digits=0), Number(gain.selected), Number(gain.comparator)]
        rows.append(Row(key, (COMPARISONS[key], *counts, *gain_cells(gain))))
    answers = policy.eligible.size
    reviewed = Number(100 * policy.reviewed / max(answers, 1), digits=1).text()
    caption = (
        f"The comparisons once more with grounded answers. {int(policy.eligible.sum()):,} of "
        f"{answers:,} candidates have an eligible answer: supported by the patient's facts, "
        "confined to what was asked, and silent about the diagnosis to be made. First row: the "
        "original choices, in cases where both are eligible. Second row: choices among eligible "
        "candidates, in cases with at least two. Third row: as the second, where the executed "
        f"question is eligible too. {SUCCESS} A person reviewed {policy.reviewed:,} of the answers "
        f"({reviewed}%). {_whose(collected, policy)} {INTERVALS}"
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
    """What the highest utility gains where so many of a state's candidates differ."""
    rows = []
    studied = policies(collected)
    for number, policy in enumerate(studied):
        every = {"all": policy.gain_over("uniform"), **policy.gains_by_differing()}
        for count, gain in every.items():
            first = count == "all"
            label = "" if not first else policy.title
            asked = "all" if first else Number(float(count), digits=0)
            cells: list[Cell] = [Number(0, digits=0), MISSING, MISSING]
            if gain:
                states = Number(gain.cases, digits=0)
                cells = [states, Number(gain.comparator), Number(gain.selected)]
            row = (label, asked, *cells, *gain_cells(gain))
            rows.append(Row(f"{number}:{count}", row, rule=first))
    caption = (
        "States by how many of their candidate questions differ; the same question sampled twice "
        f"counts once. {SUCCESS} Gain: of the candidate with the highest utility over a choice by "
        f"chance. {INTERVALS} " + design(collected, *studied)
    )
    title = "Gain by how many of a state's candidates differ."
    return Table("gain_by_differing", title, caption, DIFFERING_COLUMNS, tuple(rows))


def gain_cells(gain: Gain | None) -> tuple[Cell, Cell]:
    """A gain and its interval; missing where there is none."""
    if gain is None:
        return MISSING, MISSING
    value = Number(gain.gain, se=gain.interval.standard_error, signed=True)
    return value, Range(gain.interval.low, gain.interval.high)


def design(collected: Collected, *studied: Continued) -> str:
    """What was drawn for some policies, for a caption."""
    alike: dict[str, list[Continued]] = {}
    for policy in studied:
        alike.setdefault(_drawn(collected, policy), []).append(policy)
    texts = []
    for drawn, same in alike.items():
        titles = listed([f"{policy.title}{_checkpoint(policy)}" for policy in same])
        replaced = listed([f"{policy.manifest['replaced']:,}" for policy in same])
        texts.append(
            f"{titles}: {drawn} {replaced} cases were passed over, as not every candidate was a "
            "question."
        )
    return " ".join(texts)


def _drawn(collected: Collected, policy: Continued) -> str:
    manifest = policy.manifest
    settings = collected.study.continuation
    wanted = (settings if policy.ungrounded is None else settings.ungrounded).states
    benchmark = collected.benchmarks[collected.study.development].title
    text = (
        f"{manifest['states']:,} cases of {benchmark} at their initial state, "
        f"{manifest['candidates']} candidate questions each, each continued "
        f"{manifest['continuations']} times to the diagnosis by the same policy, "
        f"{manifest['trajectories']:,} consultations in all."
    )
    if manifest["states"] != wanted:
        text += f" The study wanted {wanted:,} states; no more were to be had."
    return text


def _checkpoint(policy: Continued) -> str:
    """At which checkpoint a trained policy is; an early one's title says it."""
    update = policy.manifest["update"]
    return f" at its selected update {update}" if update and not policy.early else ""


def _whose(collected: Collected, policy: Continued) -> str:
    """Which continuations a table of grounded answers has."""
    if policy.ungrounded is None:
        return "The continuations are those of the table with all candidates."
    return f"No claim is tested with these states. {design(collected, policy)}"
