"""The paper's numbers beside ours.

Where a study runs benchmarks of the paper, cell by cell with the difference and its uncertainty;
where it runs none, as two tables under headings of their own, without differences.
"""

from dataclasses import replace

from analysis.published import published
from analysis.table import MISSING, Cell, Column, Number, Row, Table
from analysis.tables.layout import FIXED
from pcqc_study.intervals_over_cases import NORMAL
from pcqc_study.study_file import Study

COLUMNS = (
    Column("of", "Row", numeric=False),
    Column("column", "Column", numeric=False),
    Column("published", "Published"),
    Column("ours", "Ours"),
    Column("difference", "Difference"),
    Column("half_width", f"± {NORMAL:.2f} SE"),
)


def comparable(study: Study) -> bool:
    """Whether the numbers compare with the paper's: its benchmarks, and no test of the path."""
    real = not study.synthetic and not study.path_test
    return real and bool({*study.benchmarks} & {*published().benchmarks})


def companion(ours: Table, study: Study) -> list[Table]:
    """Tables to show beside ours: one of differences, or the two sides where none can be taken."""
    paper = published().tables[ours.name]
    if comparable(study):
        return [differences(ours, paper)]
    ours = replace(ours, name=f"{ours.name}_ours", title=f"This study. {ours.title}")
    note = "This study's cases are not the paper's, so the numbers cannot be compared."
    title, notes = f"Published. {paper.title}", (*paper.notes, note)
    return [ours, replace(paper, name=f"{paper.name}_paper", title=title, notes=notes)]


def differences(ours: Table, paper: Table) -> Table:
    """One row per cell that both tables have, ours minus published, with its uncertainty.

    Our row at a fixed update is compared with the same row of the paper as that at selected ones.
    The uncertainty combines the standard errors of both sides, over runs or, for one run, over
    cases. It is missing where a side has none.
    """
    keys = [column.key for column in paper.columns]
    printed = {row.key: dict(zip(keys, row.cells, strict=True)) for row in paper.rows}
    kinds = [column.numeric for column in ours.columns]
    width = kinds.index(True) if any(kinds) else 1
    rows, above = [], ("",) * width
    for row in ours.rows:
        # What names a row are the texts left of its numbers; a blank stands for that above it.
        above = tuple(new or old for new, old in zip(row.cells[:width], above, strict=True))
        label = ": ".join(above)
        for column, cell in list(zip(ours.columns, row.cells, strict=True))[width:]:
            other = printed.get(row.key.removesuffix(FIXED), {}).get(column.key)
            if other is not None:
                title = f"{column.group}: {column.title}" if column.group else column.title
                cells = (label, title, *_compared(other, cell, column.numeric))
                new = not rows or rows[-1].cells[0] != label
                rows.append(Row(f"{row.key}:{column.key}", cells, rule=new))
    return Table(
        f"{ours.name}_vs_paper",
        f"Paper against ours. {ours.title}",
        f"Difference: ours minus published. ± {NORMAL:.2f} SE: so many standard errors of the "
        "difference, where both sides have one: over runs, or over cases for a single run and for "
        "a paired gain.",
        COLUMNS,
        tuple(rows),
    )


def _compared(printed: Cell, ours: Cell, numeric: bool) -> tuple[Cell, ...]:
    """Published, ours, difference and half-width; statements are compared by their meaning."""
    if not (isinstance(printed, Number) and isinstance(ours, Number)):
        texts = [cell if isinstance(cell, str) else cell.text() for cell in (printed, ours)]
        meanings = [getattr(cell, "meaning", cell) for cell in (printed, ours)]
        word = "same" if meanings[0] == meanings[1] else "differs"
        return (*texts, MISSING if numeric or MISSING in texts else word, MISSING)
    difference = Number(ours.value - printed.value, digits=ours.digits, signed=True)
    half = MISSING
    if ours.se is not None and printed.se is not None:
        width = NORMAL * (ours.se**2 + printed.se**2) ** 0.5
        half = Number(width, digits=ours.digits)
    return (replace(printed, best=False), replace(ours, best=False), difference, half)
