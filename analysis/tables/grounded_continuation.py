"""The same comparisons where the patient's answers are grounded."""

from analysis.collected import Collected
from analysis.continuation import Continued, Gain, main_policy
from analysis.published import published
from analysis.statistics.bootstrap import RESAMPLES, Interval
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table

NAME = "grounded_continuation"
COLUMNS = (
    Column("comparison", "Comparison", numeric=False),
    Column("cases", "Cases"),
    Column("selected", "Selected", "Success (%)"),
    Column("comparator", "Comparator", "Success (%)"),
    Column("gain", "Δ (pp)"),
    Column("interval", "95% CI"),
)
LABELS = {
    "original_highest_utility_vs_executed": "Original highest-utility vs. executed question q_1",
    "eligible_highest_utility_vs_uniform": "Highest-utility vs. uniform (eligible candidates)",
    "eligible_highest_utility_vs_executed": "Highest-utility vs. executed (eligible candidates)",
}
RULES = (
    "The first row keeps the original choices, in cases where both are eligible; the second takes "
    "cases with at least two eligible candidates; the third also needs the executed question to be "
    "eligible."
)


def build(collected: Collected) -> Table:
    """The paper's three comparisons, with the counts of eligible candidates."""
    found = main_policy(collected)
    rows = [Row(key, (LABELS[key], *_cells(gain))) for key, gain in found.grounded().items()]
    caption = (
        f"{int(found.eligible.sum()):,} of {found.eligible.size:,} candidates have an eligible "
        "answer: supported by the patient's facts, confined to what was asked, and free of the "
        "decision's target. The continuations are those of the table over all candidates. "
        f"A person reviewed {found.reviewed:,} of the answers ("
        f"{Number(100 * found.reviewed / max(found.eligible.size, 1), digits=1).text()}%). "
        f"{RULES} Intervals from {RESAMPLES:,} resamples of a row's cases."
    )
    title = "Question selection with grounded answers."
    return Table(NAME, title, caption, COLUMNS, tuple(rows), _quality(found))


def _quality(found: Continued) -> tuple[str, ...]:
    """What the filter found of the answers that were made to lack grounds."""
    quality = found.filter_quality()
    if quality is None:
        return ()
    made, precision, recall = quality
    return (
        f"The patient was made to give {made:,} of {found.eligible.size:,} answers without "
        "grounds. "
        f"The filter's precision against this truth is {precision:.3f}, its recall {recall:.3f}; "
        "answers of the patient's own that lack grounds lower the precision.",
    )


def _cells(gain: Gain | None) -> tuple[Cell, ...]:
    if gain is None:
        return (Number(0, digits=0), *[MISSING] * 4)
    return (
        Number(gain.cases, digits=0),
        Number(gain.selected),
        Number(gain.comparator),
        Number(gain.gain, se=gain.interval.standard_error, signed=True),
        Range(gain.interval.low, gain.interval.high),
    )


def paper() -> Table:
    """The published table."""
    printed = published().tables[NAME]
    rows = []
    for entry in printed["rows"]:
        low, high = entry["interval"]
        cells = (
            LABELS[entry["comparison"]],
            Number(entry["cases"], digits=0),
            Number(entry["selected"]),
            Number(entry["comparator"]),
            Number(entry["gain"], se=Interval(low, high, "case").standard_error, signed=True),
            Range(low, high),
        )
        rows.append(Row(entry["comparison"], cells))
    total = published().tables["continuation"]
    caption = (
        f"{printed['eligible_candidates']} of {total['states'] * total['candidates']} candidates "
        f"have an eligible answer. {RULES}"
    )
    title = "Question selection with grounded answers in the paper."
    return Table(NAME, title, caption, COLUMNS, tuple(rows))
