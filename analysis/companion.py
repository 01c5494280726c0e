"""The paper's numbers beside ours.

Where a study runs the paper's benchmarks, cell by cell with the difference and its uncertainty;
where it does not, as two tables under headings of their own, without differences.
"""

from dataclasses import replace

from analysis.table import MISSING, Cell, Column, Number, Row, Table
from pcqc.config import Study

COLUMNS = (
    Column("of", "Row", numeric=False),
    Column("column", "Column", numeric=False),
    Column("published", "Published"),
    Column("ours", "Ours"),
    Column("difference", "Difference"),
    Column("half_width", "± 1.96 SE"),
)


def companion(ours: Table, paper: Table, study: Study) -> list[Table]:
    """Tables to show together; for a synthetic study the two sides, else one of differences."""
    if study.synthetic:
        return [
            replace(paper, name=f"{ours.name}_paper", title=f"Published. {paper.title}"),
            replace(
                ours,
                name=f"{ours.name}_ours",
                title=f"This study: {study.title}. {ours.title}",
                notes=(
                    *ours.notes,
                    "The clinic is synthetic and its models are small: the two tables share their "
                    "form, not their scale, so no differences are given.",
                ),
            ),
        ]
    return [differences(ours, paper)]


def differences(ours: Table, paper: Table) -> Table:
    """One row per cell that both tables have, ours minus published, with 1.96 standard errors.

    These combine both sides' standard errors (over runs, or over cases for one run) and are
    missing where a side has none.
    """
    rows = []
    published = {row.key: dict(zip(_keys(paper), row.cells, strict=True)) for row in paper.rows}
    titles = {column.key: _title(column) for column in ours.columns}
    for row in ours.rows:
        label = row.cells[0] if isinstance(row.cells[0], str) else row.key
        for key, cell in zip(_keys(ours)[1:], row.cells[1:], strict=True):
            other = published.get(row.key, {}).get(key)
            if other is not None:
                cells = (label or row.key, titles[key], *_compared(other, cell))
                rows.append(Row(f"{row.key}:{key}", cells, rule=key == _keys(ours)[1]))
    return Table(
        f"{ours.name}_vs_paper",
        f"Paper against ours. {ours.title}",
        "Difference: ours minus published, with 1.96 standard errors of it where both sides have "
        "one: over runs, or over cases for a single run.",
        COLUMNS,
        tuple(rows),
    )


def _keys(table: Table) -> list[str]:
    return [column.key for column in table.columns]


def _title(column: Column) -> str:
    return f"{column.group}: {column.title}" if column.group else column.title


def _compared(published: Cell, ours: Cell) -> tuple[Cell, ...]:
    """Published, ours, difference and half-width; texts are compared as texts."""
    if not (isinstance(published, Number) and isinstance(ours, Number)):
        texts = [cell if isinstance(cell, str) else cell.text() for cell in (published, ours)]
        same = "same" if texts[0] == texts[1] else "differs"
        return (*texts, MISSING if MISSING in texts else same, MISSING)
    difference = Number(ours.value - published.value, digits=ours.digits, signed=True)
    half = MISSING
    if ours.se is not None and published.se is not None:
        width = 1.96 * (ours.se**2 + published.se**2) ** 0.5
        half = Number(width, digits=ours.digits)
    return (replace(published, best=False), replace(ours, best=False), difference, half)
