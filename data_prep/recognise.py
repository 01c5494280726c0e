"""Which format a raw file has."""

from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from data_prep import (
    agentclinic,
    atpo_dialogues,
    atpo_sft,
    dxbench,
    mediq,
    own_cases,
    symptomcheck,
)
from data_prep.rows import BadRow, parse, read_rows
from pcqc.errors import UserError, nearest, one_line

MODULES = (atpo_dialogues, atpo_sft, mediq, own_cases, agentclinic, symptomcheck, dxbench)
FORMATS = {module.NAME: module for module in MODULES}
GUIDE = "docs/own-cases.md shows how to write one JSON object a line"


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
            raise UserError(f"{raw}: this is {kind}, not JSON lines; {GUIDE}") from None
        raise UserError(f"{raw}, line {number}: {problem}; fix the file") from None
    for module in FORMATS.values():
        if set(row) >= module.FIELDS:
            return module
    raise UserError(f"{raw}, line {number}: {_nearest_format(set(row))}")


def _other_kind(raw: Path, line: bytes) -> str | None:
    """What a file whose first line is no JSON object seems to be, if that is known."""
    start = line.lstrip(b"\xef\xbb\xbf \t")
    if start.startswith((b"PK\x03\x04", b"\x1f\x8b", b"PAR1")):
        return "a compressed or spreadsheet file"
    if start.startswith(b"{"):
        return "JSON over several lines" if start.strip() == b"{" else None
    ending = raw.suffix.lower()
    if b"\t" in start or ending == ".tsv":
        return "a TSV file"
    return "a CSV file" if b"," in start or b";" in start or ending == ".csv" else None


def _nearest_format(fields: set[str]) -> str:
    """The format that most of the fields belong to, and what must change for it."""
    shares = {
        name: len(module.FIELDS & fields) / len(module.FIELDS) for name, module in FORMATS.items()
    }
    name = max(shares, key=shares.__getitem__)
    known = FORMATS[name].FIELDS
    if not shares[name]:
        return f"no known format; name one with --format: {', '.join(FORMATS)}"
    missing, others = sorted(known - fields), sorted(fields - known)
    changes = []
    for field in missing:
        meant = get_close_matches(field, others, n=1, cutoff=0.5)
        changes.append(f"rename '{meant[0]}' to '{field}'" if meant else f"add '{field}'")
    return one_line(f"nearest to the format '{name}': {', '.join(changes)}")
