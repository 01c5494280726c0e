"""Which format a raw file has."""

from pathlib import Path
from types import ModuleType

from data_prep.real import atpo_dialogues, atpo_sft, mediq, own_cases
from data_prep.real.rows import BadRow, parse, read_lines
from pcqc.errors import UserError

FORMATS = {module.NAME: module for module in (atpo_dialogues, atpo_sft, mediq, own_cases)}


def recognise(raw: Path, name: str | None = None) -> ModuleType:
    """The module that converts a file: the one named, or the one whose fields its first row has."""
    if name is not None:
        if name not in FORMATS:
            raise UserError(f"no format '{name}'; known are {', '.join(FORMATS)}")
        return FORMATS[name]
    number, line = next(read_lines(raw), (0, b""))
    if not number:
        raise UserError(f"{raw}: holds no rows; fetch the file again or name another")
    try:
        fields = set(parse(line))
    except BadRow as problem:
        raise UserError(f"{raw}, line {number}: {problem}; fix the file") from None
    for module in FORMATS.values():
        if fields >= module.FIELDS:
            return module
    raise UserError(
        f"{raw}: its first row is of no known format; name one with --format: {', '.join(FORMATS)}"
    )
