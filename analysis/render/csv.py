"""Raw numbers: every column under its key, deviations and interval ends in columns of their own."""

import csv
import io
from collections.abc import Sequence

from analysis.table import Cell, Number, Range, Table

_PARTS = {Number: ("", "_sd"), Range: ("_low", "_high")}


def render(tables: Sequence[Table]) -> str:
    """One block per table; a blank line separates blocks."""
    return "\n".join(map(_block, tables))


def _block(table: Table) -> str:
    suffixes = [_suffixes([row.cells[i] for row in table.rows]) for i in range(len(table.columns))]
    head = [c.key + s for c, parts in zip(table.columns, suffixes, strict=True) for s in parts]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", *head])
    for row in table.rows:
        values = [_values(cell) for cell in row.cells]
        flat = [v.get(s, "") for v, parts in zip(values, suffixes, strict=True) for s in parts]
        writer.writerow([row.key, *flat])
    return file.getvalue()


def _values(cell: Cell) -> dict[str, str]:
    """Suffix of the column's key -> raw value."""
    if isinstance(cell, str):
        return {"": cell}
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
