"""Raw numbers: every column under its key, deviations and interval ends in columns of their own."""

from collections.abc import Sequence

from analysis.table import Cell, Range, Row, Table
from pcqc.system.files import csv_text, no_formula


def render(tables: Sequence[Table]) -> str:
    """One block per table; a blank line separates blocks."""
    return "\n".join(map(_block, tables))


def _block(table: Table) -> str:
    suffixes = [_suffixes([row.cells[i] for row in table.rows]) for i in range(len(table.columns))]
    head = [
        no_formula(c.key) + s
        for c, parts in zip(table.columns, suffixes, strict=True)
        for s in parts
    ]
    return csv_text(["row", *head], (_line(row, suffixes) for row in table.rows))


def _line(row: Row, suffixes: Sequence[Sequence[str]]) -> list[str]:
    values = [_values(cell) for cell in row.cells]
    return [
        no_formula(row.key),
        *(v.get(s, "") for v, parts in zip(values, suffixes, strict=True) for s in parts),
    ]


def _values(cell: Cell) -> dict[str, str]:
    """Suffix of the column's key -> raw value."""
    if isinstance(cell, str):
        return {"": no_formula(cell)}
    if isinstance(cell, Range):
        return {"_low": raw(cell.low), "_high": raw(cell.high)}
    sd = getattr(cell, "sd", None)
    return {"": raw(cell.value)} | ({} if sd is None else {"_sd": raw(sd)})


def raw(value: float) -> str:
    """Twelve significant digits: more would be rounding noise."""
    return f"{value:.12g}"


def _suffixes(cells: Sequence[Cell]) -> list[str]:
    """The columns that a table column needs, in a fixed order."""
    used = {suffix for cell in cells for suffix in _values(cell)}
    return [suffix for suffix in ("", "_sd", "_low", "_high") if suffix in used]
