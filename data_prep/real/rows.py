"""Rows of files that others wrote: read strictly, and refused in words that name what is wrong."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcqc.cases import Case
from pcqc.files import read_bytes
from pcqc.sft_rows import SftRow

LONGEST_MESSAGE = 300  # characters


class Refused(Exception):
    """A row that no case is made of; whatever the row holds, the message is one printable line."""

    def __init__(self, message: str):
        shown = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"
        escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
        super().__init__("".join(escaped))


class BadRow(Refused):
    """A row that is not of its format; the message says what is wrong and what was expected."""


class Conflict(Refused):
    """A row of its format that contradicts itself; it is excluded, with the message as reason.

    Attributes:
        case_id: of the case that it would have been.
    """

    def __init__(self, case_id: str, reason: str):
        super().__init__(reason)
        self.case_id = case_id


@dataclass(frozen=True)
class Converted:
    """A row's case or SFT row, with what a reader of the data card should know of it.

    Attributes:
        record: what it became.
        notes: what is odd about it.
        system: the system message of its prompt; None where its format has none.
    """

    record: Case | SftRow
    notes: tuple[str, ...] = ()
    system: str | None = None


@dataclass
class Origin:
    """The file that rows come from, and the names that its rows get.

    Attributes:
        source: name of the source; ids start with it.
        file: name of the raw file, without folder.
        used: ids given so far.
    """

    source: str
    file: str
    used: set[str] = field(default_factory=set)

    def identify(self, number: int | str, line: int) -> str:
        """`<source>-<the row's own number>`; with its line too where that repeats another's."""
        name = f"{self.source}-{number}"
        if name in self.used:
            name = f"{name}-line{line}"
        if name in self.used:
            raise BadRow(f"its id '{number}' repeats the id of an earlier row")
        self.used.add(name)
        return name


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes) of a file; blank lines are skipped.

    Lines end with a newline and nothing else: other characters that break lines stand in texts.
    """
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if line.strip():
            yield number, line


def parse(line: bytes) -> dict[str, Any]:
    """A line's JSON object; BadRow where it is none, or names a field twice."""
    try:
        row = json.loads(line.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise BadRow("not UTF-8 text") from None
    except RecursionError:
        raise BadRow("not a row: nested too deeply") from None
    except ValueError as problem:
        raise BadRow(f"not JSON ({getattr(problem, 'msg', problem)})") from None
    if not isinstance(row, dict):
        raise BadRow(f"expected an object {{...}}, found {type(row).__name__}")
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a repeated field Python would keep the last and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRow(f"the field '{next(n for n in names if names.count(n) > 1)}' stands twice")
    return found


def take(row: dict[str, Any], name: str, kind: type) -> Any:
    """A field of a row; BadRow where it is missing or of another type."""
    if name not in row:
        raise BadRow(f"the field '{name}' is missing")
    value = row[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRow(f"'{name}' must be {_KINDS[kind]}, found {type(value).__name__}")
    return value


_KINDS = {str: "a text", dict: "an object", list: "a list", int: "a whole number"}


def take_number(row: dict[str, Any], name: str) -> int | str:
    """A row's number in its source: a whole number, or a text where the source names its rows."""
    return check_text(row[name], name) if isinstance(row.get(name), str) else take(row, name, int)


def take_texts(row: dict[str, Any], name: str) -> list[str]:
    """A list of texts, none of them blank."""
    return [check_text(text, f"an item of '{name}'") for text in take(row, name, list)]


def check_text(value: Any, what: str) -> str:
    """The value itself, if it is a text with something in it that UTF-8 can write."""
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"{what} must be a non-empty text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRow(f"{what} holds half a character (a lone surrogate)") from None
    return value
