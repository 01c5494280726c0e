"""Markdown tables."""

from collections.abc import Sequence

from analysis.table import Cell, Column, Number, Table


def render(tables: Sequence[Table]) -> str:
    """The tables, each with its caption above and its notes below."""
    return "\n".join(map(_table, tables))


def _table(table: Table) -> str:
    lines = [f"**{_escape(table.title)}** {_escape(table.caption)}", ""]
    lines.append(_line(_head(column) for column in table.columns))
    lines.append(_line("---:" if column.numeric else ":---" for column in table.columns))
    lines += [
        _line(cell(value, row.strong and i == 0) for i, value in enumerate(row.cells))
        for row in table.rows
    ]
    lines += [f"\n{_escape(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _head(column: Column) -> str:
    return _escape(f"{column.group}: {column.title}" if column.group else column.title)


def _line(cells) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for character in "\\|*_<>":
        text = text.replace(character, f"\\{character}")
    return text


def cell(value: Cell, strong: bool = False) -> str:
    """One cell."""
    text = _escape(value if isinstance(value, str) else value.text())
    best = isinstance(value, Number) and value.best
    text = f"**{text}**" if (strong or best) and text else text
    has_sd = isinstance(value, Number) and value.sd is not None
    return f"{text} ± {value.sd_text()}" if has_sd else text
