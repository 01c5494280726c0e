"""A table of one's own cases, from a spreadsheet: one column per field and per option."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from data_prep.own_cases import FIELDS
from data_prep.recognise import packed
from data_prep.rows import read_text
from pcqc_base.errors import UserError

# Python's words for what is wrong with a cell -> what is, and the remedy.
FAULTS = {
    "unexpected end of data": "a double quote opens a cell and none closes it; close it, or write "
    "it twice if it is part of the text",
    "expected after": "text follows a cell's closing double quote; write a quote that is part of "
    "the text twice",
    "field larger than": f"a cell has more than {csv.field_size_limit():,} characters; close its "
    "double quote, or shorten it",
}


def json_lines(table: Path) -> bytes:
    """A CSV file as JSON lines; each row keeps the number of its last line.

    Raises UserError for a table that is not UTF-8, whose columns are not those of a case, or a row
    whose cells are not those of the columns.
    """
    rows = csv.reader(io.StringIO(_text(table), newline=""), strict=True)
    lines, names = [""], next(_read(table, rows), [])
    _check_columns(table, names)
    for cells in _read(table, rows):
        _check_cells(f"{table}, line {rows.line_num}", names, cells)
        lines += [""] * (rows.line_num - len(lines))
        case = _case(dict(zip(names, cells, strict=True)))
        lines.append(json.dumps(case, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines[1:]).encode()


def _text(table: Path) -> str:
    """The text of a table; UserError where it is none, or not in UTF-8."""
    content = read_text(table)
    if kind := packed(content):
        raise UserError(f"{table}: this is {kind}, not CSV; save the sheet as CSV in UTF-8")
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        line = 1 + content.count(b"\n", 0, problem.start)
        raise UserError(f"{table}, line {line}: not UTF-8 text; save it as UTF-8") from None


def _read(table: Path, rows) -> Iterator[list[str]]:
    """Rows that are not empty; UserError with the line where a broken one begins."""
    while True:
        begins = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as problem:
            faults = [words for known, words in FAULTS.items() if known in str(problem)]
            raise UserError(f"{table}, line {begins}: {[*faults, problem][0]}") from None
        if cells is None:
            return
        if cells:
            yield cells


def _check_columns(table: Path, names: Sequence[str]) -> None:
    """UserError unless a table has each column once."""
    wanted = [*(FIELDS - {"options"}), *ascii_uppercase[:2]]
    lacking = [f"'{name}'" for name in sorted(wanted) if name not in names]
    twice = sorted(f"'{name}'" for name, count in Counter(names).items() if count > 1 and name)
    if lacking or twice:
        what = f"no column {', '.join(lacking)}" if lacking else f"more than one column {twice[0]}"
        raise UserError(
            f"{table}, line 1: {what}; name the columns as docs/own-cases.md does, with commas "
            "between them"
        )


def _check_cells(where: str, names: Sequence[str], cells: Sequence[str]) -> None:
    """UserError unless a row has as many cells as columns, and none without a name."""
    if len(cells) != len(names):
        raise UserError(
            f"{where}: its cells are not as many as the columns; put a text with a comma between "
            "double quotes"
        )
    for number, (name, cell) in enumerate(zip(names, cells, strict=True), start=1):
        if cell and not name.strip():
            raise UserError(
                f"{where}: column {number} has a cell and no name; name it in line 1, or empty it"
            )


def _case(row: dict[str, str]) -> dict:
    """A row of a table as a case; an empty cell of an option is none, of another field missing."""
    cells: dict = {name: cell for name, cell in row.items() if cell}
    options = {label: cells.pop(label) for label in ascii_uppercase if label in cells}
    if "facts" in cells:
        cells["facts"] = [fact.strip() for fact in cells["facts"].split("|")]
    return cells | {"options": options}
