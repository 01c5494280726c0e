"""Whether the question of highest utility is the one that ends in the right diagnosis."""

from analysis.collected import Collected
from analysis.continuation import RULES, Continued, Gain, main_policy, mean_over_states
from analysis.statistics.bootstrap_intervals import RESAMPLES
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table

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
COMPARISONS = {
    "original_highest_utility_vs_executed": "Original highest-utility vs. executed question q_1",
    "eligible_highest_utility_vs_uniform": "Highest-utility vs. uniform (eligible candidates)",
    "eligible_highest_utility_vs_executed": "Highest-utility vs. executed (eligible candidates)",
}


def build(collected: Collected) -> Table:
    """Success of each selection rule, and what the highest utility gains over it."""
    policy = main_policy(collected).as_answered()
    rows = []
    for rule, label in RULES.items():
        highest = rule == "highest_utility"
        mean = mean_over_states(policy.selected()[rule])
        success = Number(mean.value, best=highest) if mean else MISSING
        gain = gain_cells(None if highest else policy.gain_over(rule))
        rows.append(Row(rule, (label, success, *gain), rule=highest, strong=highest))
    caption = (
        f"{design(collected, policy)} Success: share of a candidate's continuations that end in "
        f"the right diagnosis; intervals from {RESAMPLES:,} resamples of cases."
    )
    title = "Continuation-based validation of diagnostic utility."
    return Table("continuation", title, caption, COLUMNS, tuple(rows))


def grounded(collected: Collected) -> Table:
    """The paper's three comparisons where answers are grounded, with the eligible candidates."""
    policy = main_policy(collected)
    rows = []
    for key, gain in policy.grounded().items():
        counts: list[Cell] = [Number(0, digits=0), MISSING, MISSING]
        if gain:
            counts = [Number(gain.cases, digits=0), Number(gain.selected), Number(gain.comparator)]
        rows.append(Row(key, (COMPARISONS[key], *counts, *gain_cells(gain))))
    answers = policy.eligible.size
    reviewed = Number(100 * policy.reviewed / max(answers, 1), digits=1).text()
    caption = (
        f"{int(policy.eligible.sum()):,} of {answers:,} candidates have an eligible "
        "answer: supported by the patient's facts, confined to what was asked, and free of the "
        "decision's target. The continuations are those of the table over all candidates. "
        f"A person reviewed {policy.reviewed:,} of the answers ({reviewed}%). The first row keeps "
        "the original choices, in cases where both are eligible; the second takes cases with at "
        "least two eligible candidates; the third also needs the executed question to be eligible. "
        f"Intervals from {RESAMPLES:,} resamples of a row's cases."
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


def gain_cells(gain: Gain | None) -> tuple[Cell, Cell]:
    """A gain and its interval; missing where there is none."""
    if gain is None:
        return MISSING, MISSING
    value = Number(gain.gain, se=gain.interval.standard_error, signed=True)
    return value, Range(gain.interval.low, gain.interval.high)


def design(collected: Collected, policy: Continued) -> str:
    """What was drawn, for a caption."""
    manifest = policy.manifest
    wanted = collected.study.continuation.states
    benchmark = collected.benchmarks[collected.study.development].title
    text = (
        f"{manifest['states']:,} cases of {benchmark} at their initial state, "
        f"{manifest['candidates']} candidates each, {manifest['continuations']} continuations of "
        f"each candidate by {policy.title}: {manifest['trajectories']:,} in all. "
        f"{manifest['replaced']:,} cases were replaced, in which not every candidate was a "
        "question."
    )
    if manifest["states"] != wanted:
        text += f" Fewer were available than the {wanted:,} wanted."
    if misled := manifest["states"] - len(policy.case_ids):
        text += f" {misled:,} states with an answer that was made to lack grounds are left out."
    return text
