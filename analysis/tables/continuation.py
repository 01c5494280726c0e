"""Whether the question of highest utility is the one that ends in the right diagnosis."""

from analysis.collected import Collected
from analysis.continuation import RULES, Continued, main_policy, mean_over_states
from analysis.published import published
from analysis.statistics.bootstrap import RESAMPLES, Interval
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table

NAME = "continuation"
COLUMNS = (
    Column("selection", "Question selection", numeric=False),
    Column("success", "Success (%)"),
    Column("gain", "Gain (pp)", "Highest-utility over it"),
    Column("interval", "95% CI", "Highest-utility over it"),
)


def build(collected: Collected) -> Table:
    """Success of each selection rule, and what the highest utility gains over it."""
    found = main_policy(collected).as_answered()
    rows = []
    for rule, label in RULES.items():
        mean = mean_over_states(found.selected()[rule])
        success = Number(mean.value, best=rule == "highest_utility") if mean else MISSING
        cells: list[Cell] = [MISSING, MISSING]
        gain = None if rule == "highest_utility" else found.gain_over(rule)
        if gain:
            se = gain.interval.standard_error
            cells = [
                Number(gain.gain, se=se, signed=True),
                Range(gain.interval.low, gain.interval.high),
            ]
        rows.append(_row(rule, label, success, cells))
    caption = (
        f"{design(collected, found)} Success: share of a candidate's continuations that end in the "
        f"right diagnosis; intervals from {RESAMPLES:,} resamples of cases."
    )
    title = "Continuation-based validation of diagnostic utility."
    return Table(NAME, title, caption, COLUMNS, tuple(rows))


def design(collected: Collected, found: Continued) -> str:
    """What was drawn, for a caption."""
    manifest = found.manifest
    wanted = collected.study.continuation.states
    short = (
        "" if manifest["states"] == wanted else f" Fewer were available than the {wanted:,} wanted."
    )
    misled = manifest["states"] - len(found.case_ids)
    left = (
        f" {misled:,} states are left out, at which an answer was made to lack grounds."
        if misled
        else ""
    )
    benchmark = collected.benchmarks[collected.study.development].title
    return (
        f"{manifest['states']:,} cases of {benchmark} at their initial state, "
        f"{manifest['candidates']} candidates each, {manifest['continuations']} continuations of "
        f"each candidate by {found.title}: {manifest['trajectories']:,} in all. "
        f"{manifest['replaced']:,} cases were replaced, in which not every candidate was a "
        f"question.{short}{left}"
    )


def paper() -> Table:
    """The published table."""
    printed = published().tables[NAME]
    rows = []
    for rule, label in RULES.items():
        success = Number(printed["success"][rule], best=rule == "highest_utility")
        cells: list[Cell] = [MISSING, MISSING]
        if rule in printed["gains"]:
            gain = printed["gains"][rule]
            low, high = gain["interval"]
            cells = [
                Number(gain["gain"], se=Interval(low, high, "case").standard_error, signed=True),
                Range(low, high),
            ]
        rows.append(_row(rule, label, success, cells))
    caption = (
        f"{printed['states']} MedQA states, {printed['candidates']} candidates each, "
        f"{printed['continuations']} continuations of each candidate by PCQC run A: "
        f"{printed['trajectories']:,} in all."
    )
    title = "Continuation-based validation of diagnostic utility in the paper."
    return Table(NAME, title, caption, COLUMNS, tuple(rows))


def _row(rule: str, label: str, success: Cell, cells: list[Cell]) -> Row:
    highest = rule == "highest_utility"
    return Row(rule, (label, success, *cells), rule=highest, strong=highest)
