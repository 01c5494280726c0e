"""Which format a raw file has."""

from collections.abc import Collection
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from types import ModuleType

from data_prep import (
    agentclinic,
    atpo_dialogues,
    atpo_sft,
    dxbench,
    mediq,
    messages,
    own_cases,
    symptomcheck,
)
from data_prep.rows import BadRow, parse, read_rows, read_text
from pcqc_base.errors import UserError, nearest, one_line
from pcqc_base.system.files import parse_json

MODULES = (
    *(atpo_dialogues, atpo_sft, messages, mediq, own_cases),
    *(agentclinic, symptomcheck, dxbench),
)
FORMATS = {module.NAME: module for module in MODULES}
GUIDE = "docs/own-cases.md shows how to write one JSON object a line"
LFS, FETCH_LFS = "a Git LFS pointer", "not the file; `git lfs pull` in its repository fetches that"
# How files of zip, gzip, bzip2, xz, zstd, Parquet and old spreadsheets begin.
PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7z", b"(\xb5/\xfd", b"PAR1", b"\xd0\xcf\x11")
ALIKE = 0.5  # least likeness of a field's name to the one that it may stand for


def recognise(raw: Path, name: str | None = None) -> ModuleType:
    """The module that converts a file: the one named, or the one whose fields its first row has.

    Raises UserError: an unknown name, or a file of no known format, with what it seems to be.
    """
    if name is not None:
        if name not in FORMATS:
            raise UserError(f"no format '{name}'{nearest(name, FORMATS)}")
        return FORMATS[name]
    number, line = next(read_rows(raw), (0, b""))
    if not number:
        raise UserError(f"{raw}: holds no rows; fetch the file again or name another")
    try:
        row = parse(line)
    except BadRow as problem:
        if kind := _other_kind(raw, line):
            remedy = FETCH_LFS if kind is LFS else f"not JSON lines; {GUIDE}"
            raise UserError(f"{raw}: this is {kind}, {remedy}") from None
        raise UserError(f"{raw}, line {number}: {problem}; fix the file") from None
    for module in FORMATS.values():
        if set(row) >= module.FIELDS:
            return module
    raise UserError(f"{raw}, line {number}: {_nearest_format(set(row))}")


def _other_kind(raw: Path, line: bytes) -> str | None:
    """What a file whose first line is no JSON object seems to be, if that is known."""
    start, ending = line.strip(b" \t\r"), raw.suffix.lower()
    if kind := packed(start):
        return kind
    if start.startswith(b"version https://git-lfs"):
        return LFS
    if start.startswith(b"{"):
        return "JSON over several lines" if start == b"{" or _is_json(raw) else None
    if b"\0" in line:
        return "a binary file"
    if b"\t" in line or ending == ".tsv":
        return "a TSV file"
    if ending == ".csv" or (start[:1] not in b"<#%-" and (b"," in start or b";" in start)):
        return "a CSV file"
    return "a file of another format"


def packed(start: bytes) -> str | None:
    """What a file that begins with these bytes is, if they are no text."""
    return "a compressed or spreadsheet file" if start.startswith(PACKED) else None


def _is_json(raw: Path) -> bool:
    with suppress(ValueError):
        parse_json(read_text(raw))
        return True
    return False


def _nearest_format(fields: set[str]) -> str:
    """The format that most of the fields belong to, and what must change for it."""
    shares = {
        name: len(module.FIELDS & fields) / len(module.FIELDS) for name, module in FORMATS.items()
    }
    name = max(shares, key=shares.__getitem__)
    known = FORMATS[name].FIELDS
    if not shares[name]:
        return f"no known format; name one with --format: {', '.join(FORMATS)}"
    meant = _meant(known - fields, fields - known)
    changes = [
        f"rename '{meant[field]}' to '{field}'" if field in meant else f"add '{field}'"
        for field in sorted(known - fields)
    ]
    return one_line(f"nearest to the format '{name}': {', '.join(changes)}")


def _meant(missing: Collection[str], others: Collection[str]) -> dict[str, str]:
    """Missing field -> the other field that may stand for it; each stands for one, the nearest."""
    pairs = [(SequenceMatcher(None, a, b).ratio(), a, b) for a in missing for b in others]
    meant: dict[str, str] = {}
    for ratio, field, other in sorted(pairs, reverse=True):
        if ratio >= ALIKE and field not in meant and other not in meant.values():
            meant[field] = other
    return meant
