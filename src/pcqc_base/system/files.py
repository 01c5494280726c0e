"""Reading and writing whole files, so that a reader never sees half of one."""

import codecs
import contextlib
import csv
import dataclasses
import fcntl
import functools
import glob
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pcqc_base.errors import UserError, describe, one_line, writing
from pcqc_base.system.locks import locked


def write_atomic(path: str | Path, content: bytes | str | Iterable[bytes]) -> None:
    """Put `content` (text as UTF-8; or parts) at `path`, whole and on disk, or leave the old.

    The bytes go to a temporary name in the same folder, are synced, and are renamed into place; the
    folder is synced last, so that the new name survives a crash too. Missing folders are made.

    Raises UserError, with no temporary file left, when the disk is full or the folder not writable.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_beside(path, [data] if isinstance(data, bytes) else data)
        sync(path.parent)


def _write_beside(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts` to a synced temporary file in the folder of `path`, and rename it.

    First it removes the temporary files of killed writers, on which nobody holds a lock. A writer
    whose file was removed before it could lock it makes another.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError), open(leftover, "rb+") as file:
            if locked(file):
                leftover.unlink()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not temporary.exists():
                return _write_beside(path, parts)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flush a file, or a folder's entries, so that a rename in it outlives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a file. Raises UserError naming it where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise UserError(f"cannot read {path}: {describe(problem)}") from problem


def sha256_file(path: str | Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes. Raises UserError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise UserError(f"cannot read {path}: {describe(problem)}") from problem


def digest(settings: object) -> str:
    """SHA-256 of plain data or of a settings dataclass: its first 16 hex digits."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        settings = dataclasses.asdict(settings)
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys: equal values give equal bytes. Refuses NaN."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_atomic(path, text + "\n")


def parse_json(data: bytes) -> Any:
    """The value of JSON in UTF-8, read strictly.

    Python alone would keep the last of two duplicate keys, and accept NaN, numbers that overflow to
    infinity, and lone surrogates, which fail only where they are written again.

    Raises ValueError; its message is a clause that names the problem. For broken JSON it is a
    json.JSONDecodeError, which knows line and column.
    """
    try:
        text = data.decode()
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        if b"\\u" in data or _HUGE.search(data):  # else nothing below can fail
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text; save it as UTF-8") from None
    except UnicodeEncodeError:
        raise ValueError("a string holds a lone surrogate (half a character)") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as problem:
        huge = "integer" in str(problem) or "JSON compliant" in str(problem)
        raise ValueError("a number is too large" if huge else str(problem)) from None
    return value


_HUGE = re.compile(rb"\d{309}|[eE]\+?\d{3}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(n for n in names if names.count(n) > 1)!a}")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def read_json(path: str | Path, shape: Any = None, remedy: str = "fix or remake the file") -> Any:
    """The value of a JSON file (see `parse_json`).

    Args:
        path: the file.
        shape: type that the value must have, one of `pcqc_base.system.json_shapes`.
        remedy: how to get the file back, for an error.

    Raises:
        UserError: broken JSON, or a value of another shape; names the place and the remedy.
    """
    try:
        value = parse_json(read_bytes(path))
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno} column {problem.colno}"
        raise UserError(f"{path}, {where}: not JSON ({problem.msg}); {remedy}") from None
    except ValueError as problem:
        raise UserError(f"{path}: {problem}; {remedy}") from None
    if shape is not None:
        try:
            _adapter(shape).validate_python(value, strict=True)
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = one_line(".".join(map(str, first["loc"]))) or "the whole"
            raise UserError(f"{path}: {where}: {first['msg'].lower()}; {remedy}") from None
    return value


_adapter = functools.cache(TypeAdapter)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """A text as a CSV cell; a quote keeps spreadsheets from reading it as a formula."""
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def of_cell(cell: str) -> str:
    """The text that `no_formula` made a cell of."""
    return cell[1:] if cell.startswith("'") and no_formula(cell) != cell else cell


def csv_text(header: Iterable[str], rows: Iterable[Iterable]) -> str:
    """A header and rows as CSV, the same on every system."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write_jsonl(path: str | Path, rows: Iterable[dict]) -> None:
    """Write one JSON object a line, keys in the order of each row. Refuses NaN."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    write_atomic(path, "".join(lines))


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes) of a file; blank lines and a byte-order mark are skipped.

    Only a newline ends a line: a string may hold the other characters that break lines.
    """
    lines = read_bytes(path).removeprefix(codecs.BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of one line. Raises ValueError; its message is a clause."""
    try:
        row = parse_json(line)
    except json.JSONDecodeError as problem:
        raise ValueError(f"not JSON ({problem.msg} at column {problem.colno})") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object {{...}}, found {type(row).__name__}")
    return row


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of a JSON-lines file; blank lines are skipped.

    Raises UserError naming file and line of one that is no object.
    """
    for number, line in read_lines(path):
        try:
            row = parse_object(line)
        except ValueError as problem:
            raise UserError(f"{path}, line {number}: {problem}; fix or remove the line") from None
        yield number, row
