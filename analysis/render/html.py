"""HTML tables for the report."""

import re
from html import escape as plain
from itertools import groupby

from analysis.table import Cell, Column, Number, Table, deviation_room

_SHORT = 24  # characters
_WIDE = 8  # columns
_SYMBOL = re.compile(r"\b([GOq])_([A-Za-z0-9])")


def escape(text: str) -> str:
    """Escaped text with the paper's subscripts."""
    return _SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", plain(text))


def render(table: Table) -> str:
    """A <table> inside a scrolling frame, with its caption above and its notes below."""
    notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in table.notes)
    wide = " class='wide'" if len(table.columns) > _WIDE else ""
    caption = f"<b>{escape(table.title)}</b> {escape(table.caption)}"
    return (
        f"<figure class='table' id='table-{table.name}'><figcaption>{caption}</figcaption>"
        f"<div class='scroll'><table{wide}>{_head(table)}{_body(table)}</table></div>"
        f"{notes}</figure>\n"
    )


def _head(table: Table) -> str:
    lines = ""
    if any(column.group for column in table.columns):
        for group, members in groupby(table.columns, key=lambda column: column.group):
            width = len(list(members))
            kind = " class='group'" if group else ""
            lines += f"<th colspan='{width}'{kind}>{escape(group)}</th>"
        lines = f"<tr class='groups'>{lines}</tr>"
    titles = "".join(
        f"<th class='{'number' if c.numeric else 'text'}'>{escape(c.title)}</th>"
        for c in table.columns
    )
    return f"<thead>{lines}<tr>{titles}</tr></thead>"


def _body(table: Table) -> str:
    body, rooms = "", deviation_room(table)
    for i, row in enumerate(table.rows):
        kinds = [name for name, on in (("rule", row.rule and i), ("strong", row.strong)) if on]
        attribute = f" class='{' '.join(kinds)}'" if kinds else ""
        cells = "".join(
            f"<td class='{_kind(column, value)}'>{cell(value, room)}</td>"
            for column, value, room in zip(table.columns, row.cells, rooms, strict=True)
        )
        body += f"<tr{attribute}>{cells}</tr>"
    return f"<tbody>{body}</tbody>"


def _kind(column: Column, value: Cell) -> str:
    """Classes of a cell; short texts do not wrap."""
    short = isinstance(value, str) and len(value) <= _SHORT
    return ("number" if column.numeric else "text") + " short" * short


def cell(value: Cell, room: str = "") -> str:
    """One cell; `room` is a deviation whose width is kept free where the cell has none."""
    if isinstance(value, str):
        return escape(value)
    text = escape(value.text())
    if not isinstance(value, Number):
        return text
    text = f"<b>{text}</b>" if value.best else text
    if value.sd is not None:
        return f"{text}<span class='sd'> ± {value.sd_text()}</span>"
    return text + (f"<span class='sd room'> ± {room}</span>" if room else "")
