"""Rows of files that others wrote: read strictly; a message says what is wrong with a row."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcqc.cases.case import Case, is_blank
from pcqc.cases.sft_rows import SftRow
from pcqc_base.errors import UserError, nearest, one_line
from pcqc_base.system.files import parse_json, parse_object, read_bytes, read_lines

_BETWEEN = re.compile(r"[\s,]*")  # rows of an array
# A mark, or characters of one byte each among zeros.
_WIDE = re.compile(
    rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff"
    rb"|([\t\n\r -~]\0){2}|(\0[\t\n\r -~]){2}|[\t\n\r -~]\0{3}|\0{3}[\t\n\r -~]"
)


class Refused(Exception):
    """A row that does not become a case; the message is one printable line."""

    def __init__(self, message: str):
        super().__init__(one_line(message))


class BadRow(Refused):
    """A row that is not of its format; the message says what is wrong and what was expected."""


class Conflict(Refused):
    """A row of its format that contradicts itself; it is excluded, with the message as reason.

    Attributes:
        case_id: that of the case that it would have been.
    """

    def __init__(self, case_id: str, reason: str):
        super().__init__(reason)
        self.case_id = case_id


@dataclass(frozen=True)
class Converted:
    """A converted row.

    Attributes:
        record: its case or SFT row.
        notes: what is unusual about it, for the data card.
        system: the system message of its prompt; None if its format has none.
        form: variant of the format, if the format has several.
    """

    record: Case | SftRow
    notes: tuple[str, ...] = ()
    system: str | None = None
    form: str = ""


@dataclass
class Origin:
    """The file that rows come from, and the ids of its rows.

    Attributes:
        source: name of the source; ids start with it.
        file: name of the raw file, without folder.
        used: ids given so far.
        diagnoses: all rows', in a format whose rows have no options.
    """

    source: str
    file: str
    used: set[str] = field(default_factory=set)
    diagnoses: set[str] = field(default_factory=set)

    def identify(self, number: int | str, line: int) -> str:
        """`<source>-<the row's own number>`; a repeated number gets its line appended."""
        name = f"{self.source}-{number}"
        if name in self.used:
            name = f"{name}-line{line}"
        return self.claim(name)

    def claim(self, name: str) -> str:
        """The id itself; BadRow if an earlier row has it."""
        if name in self.used:
            raise BadRow(f"an earlier row has the id '{name}' too")
        self.used.add(name)
        return name


def read_text(path: Path) -> bytes:
    """The bytes of a text without its byte-order mark. Raises UserError for UTF-16 and UTF-32."""
    content = read_bytes(path)
    if _WIDE.match(content):
        raise UserError(f"{path}: this is UTF-16 or UTF-32 text; save it in UTF-8")
    return content.removeprefix(codecs.BOM_UTF8)


def read_rows(raw: Path) -> Iterator[tuple[int, bytes]]:
    """(line where it begins, JSON text without newlines) of each row, of JSON lines or one array.

    Raises UserError for an array that is broken.
    """
    content = read_text(raw)
    if not content.lstrip().startswith(b"["):
        yield from read_lines(raw)
        return
    try:
        parse_json(content)
    except ValueError as problem:
        where = f", line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        reason = getattr(problem, "msg", problem)
        raise UserError(f"{raw}{where}: not a JSON array ({reason}); fix the file") from None
    text, decoder = content.decode(), json.JSONDecoder()
    end = text.index("[") + 1
    line = 1 + text.count("\n", 0, end)
    while (start := _BETWEEN.match(text, end).end()) < len(text) and text[start] != "]":
        line += text.count("\n", end, start)
        _, after = decoder.raw_decode(text, start)
        yield line, text[start:after].replace("\n", " ").encode()
        line, end = line + text.count("\n", start, after), after


def parse(line: bytes) -> dict[str, Any]:
    """A line's JSON object, read strictly; BadRow if it is none."""
    try:
        return parse_object(line)
    except ValueError as problem:
        raise BadRow(str(problem)) from None


def unread(row: dict[str, Any], read: set[str]) -> Iterator[str]:
    """Fields of a row that are not read; `outer.inner` where a part of an object is not.

    Args:
        row: the row.
        read: fields that its format reads, so named too.
    """
    inside = {name.partition(".")[0] for name in read if "." in name}
    for name, value in row.items():
        if name in inside and isinstance(value, dict):
            yield from (f"{name}.{key}" for key in value if f"{name}.{key}" not in read)
        elif name not in read | inside:
            yield name


def take(row: dict[str, Any], name: str, kind: type) -> Any:
    """A field of a row; BadRow if it is missing or has another type."""
    if name not in row:
        hint = nearest(name, row)
        raise BadRow(f"the field '{name}' is missing{hint if 'did you mean' in hint else ''}")
    value = row[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRow(f"'{name}' must be {_KINDS[kind]}, found {type(value).__name__}")
    return value


_KINDS = {str: "a string", dict: "an object", list: "a list", int: "a whole number"}


def take_number(row: dict[str, Any], name: str) -> int | str:
    """A row's number or name in its source: a whole number, or a one-line string."""
    value = row.get(name)
    if not isinstance(value, str):
        return take(row, name, int)
    if not check_text(value, f"'{name}'").isprintable():
        raise BadRow(f"'{name}' must be one line of printable characters")
    return value


def take_texts(row: dict[str, Any], name: str) -> list[str]:
    """A list of strings, none of them blank."""
    return [check_text(text, f"an item of '{name}'") for text in take(row, name, list)]


def take_text(row: dict[str, Any], name: str) -> str:
    """A string that is not blank."""
    return check_text(take(row, name, str), f"'{name}'")


def check_text(value: Any, what: str) -> str:
    """The value itself; BadRow unless it is a string that is not blank."""
    if not isinstance(value, str) or is_blank(value):
        raise BadRow(f"{what} must be a non-empty string")
    return value
