"""A raw file to cases, with the rows that were excluded and a data card beside them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

from data_prep.real.card import describe
from data_prep.real.recognise import recognise
from data_prep.real.rows import BadRow, Conflict, Origin, parse, read_lines
from data_prep.real.sources import source_name
from pcqc.cases import Case, write_cases
from pcqc.errors import UserError
from pcqc.files import csv_text, sha256_file, write_atomic, write_json, write_jsonl
from pcqc.sft_rows import SftRow

NOTHING_TO_ASK = "no facts, or no initial information: no consultation can be held"


@dataclass(frozen=True)
class Exclusion:
    """A row that is not used, and why; `case_id` is empty where the row does not state it."""

    file: str
    row: int
    case_id: str
    reason: str


@dataclass
class Conversion:
    """What a raw file holds.

    Attributes:
        records: cases or SFT rows, in the order of the file.
        exclusions: rows left out.
        notes: what a reader should know -> ids of the records it is true of.
        systems: the different system messages of the records' prompts.
    """

    records: list[Case] | list[SftRow] = field(default_factory=list)
    exclusions: list[Exclusion] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    systems: set[str] = field(default_factory=set)


def convert_file(
    raw: Path,
    to: Path,
    format_name: str | None = None,
    source: str | None = None,
    leave_out_bad_rows: bool = False,
) -> Conversion:
    """Convert a raw file and write `to`, its `.exclusions.csv` and its `.card.json`.

    Args:
        raw: a file as its source publishes it.
        to: the cases (or SFT rows), JSONL.
        format_name: its format; recognised where not given.
        source: name of the source; by the file's name where not given.
        leave_out_bad_rows: exclude rows that are not of the format, rather than stop.

    Raises:
        UserError: a bad row, by file and line, or a file with no rows to keep, and nothing is
            written; a full disk. The card is written last: where it stands, so does the rest.
    """
    if to.resolve() == raw.resolve():
        raise UserError(f"{to}: the cases would replace the raw file; name another with --to")
    module = recognise(raw, format_name)
    origin = Origin(source or source_name(raw), raw.name)
    conversion = _convert_rows(raw, module, origin, leave_out_bad_rows)
    if not conversion.records:
        raise UserError(f"{raw}: no row could be kept; check the file and --format")
    _write_records(to, conversion.records)
    beside = to.with_suffix("")
    write_exclusions(Path(f"{beside}.exclusions.csv"), conversion.exclusions)
    card = {
        "file": to.name,
        "format": module.NAME,
        "source": origin.source,
        "sha256": sha256_file(to),
        "raw": {"file": raw.name, "bytes": raw.stat().st_size, "sha256": sha256_file(raw)},
        "exclusions": [asdict(exclusion) for exclusion in conversion.exclusions],
        "notes": dict(conversion.notes),
        "system_messages": _describe_systems(conversion.systems),
        **describe(conversion.records),
    }
    write_json(Path(f"{beside}.card.json"), card)
    return conversion


def _convert_rows(raw: Path, module, origin: Origin, leave_out_bad_rows: bool) -> Conversion:
    conversion = Conversion()
    for number, line in read_lines(raw):
        try:
            converted = module.convert(parse(line), origin, number)
        except BadRow as problem:
            if not leave_out_bad_rows:
                raise UserError(
                    f"{raw}, line {number}: {problem}; fix the row, or leave such rows out with "
                    "--leave-out-bad-rows"
                ) from None
            conversion.exclusions.append(Exclusion(raw.name, number, "", f"bad row: {problem}"))
        except Conflict as conflict:
            excluded = Exclusion(raw.name, number, conflict.case_id, str(conflict))
            conversion.exclusions.append(excluded)
        else:
            conversion.records.append(converted.record)
            if converted.system is not None:
                conversion.systems.add(converted.system)
            for note in converted.notes:
                conversion.notes[note].append(_name(converted.record))
    return conversion


def _describe_systems(systems: set[str]) -> dict:
    """How many different system messages there are, and the text where all rows carry one."""
    return {"different": len(systems), "text": min(systems) if len(systems) == 1 else None}


def _write_records(to: Path, records: list[Case] | list[SftRow]) -> None:
    if isinstance(records[0], SftRow):
        write_jsonl(to, (asdict(record) for record in records))
    else:
        write_cases(to, records)


def _name(record: Case | SftRow) -> str:
    return record.id if isinstance(record, SftRow) else record.case_id


def write_exclusions(path: Path, exclusions: Iterable[Exclusion]) -> None:
    """Write exclusions as CSV with a header, also where there are none."""
    write_atomic(path, csv_text(Exclusion.__dataclass_fields__, map(astuple, exclusions)))
