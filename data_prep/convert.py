"""Converts a raw file to cases; writes excluded rows and a data card beside them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_prep.card import describe
from data_prep.parts import REPEATED, plain, problem
from data_prep.recognise import recognise
from data_prep.rows import BadRow, Conflict, Converted, Origin, parse, read_rows, unread
from data_prep.sources import source_name
from pcqc.cases.case import Case, write_cases
from pcqc.cases.sft_rows import SftRow
from pcqc_base.errors import UserError, few, one_line
from pcqc_base.system.files import (
    csv_text,
    no_formula,
    sha256_file,
    write_atomic,
    write_json,
    write_jsonl,
)
from pcqc_base.system.manifest import checked

if TYPE_CHECKING:
    from pcqc_base.task import Task

NOTHING_TO_ASK = "no facts or no initial information: no consultation is possible"

BAD_ROW = "bad row: "
FIELDS_SHOWN = 30  # names of ignored fields


@dataclass(frozen=True)
class Exclusion:
    """A row that is not used, and why; `case_id` is empty if the row is not readable."""

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
        notes: what a reader should know -> ids of its records.
        systems: the different system messages of the records' prompts.
        forms: variant of the format -> number of records.
        fields: name of a field -> number of rows that have it.
        ignored: name of a field that is not read -> number of rows that have it.
        prompts: id of a case -> what its source tells the doctor, for comparisons.
    """

    records: list[Case] | list[SftRow] = field(default_factory=list)
    exclusions: list[Exclusion] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    systems: set[str] = field(default_factory=set)
    forms: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)

    def add(self, converted: Converted, published_options: bool) -> None:
        """Add a row; options that are not published are no part of its prompt."""
        record = converted.record
        name = record.id if isinstance(record, SftRow) else record.case_id
        self.records.append(record)
        if converted.system is not None:
            self.systems.add(converted.system)
        if converted.form:
            self.forms[converted.form] += 1
        for note in converted.notes:
            self.notes[note].append(name)
        if isinstance(record, Case):
            options = sorted(map(plain, record.options.values())) if published_options else []
            told = problem(record.initial, record.question)
            self.prompts[name] = "\n".join([told, *options])

    @property
    def remarks(self) -> list[str]:
        """What a reader should know of the records, a line each."""
        names = [f"'{one_line(name)}' ({self.ignored[name]:,})" for name in sorted(self.ignored)]
        lines = [f"ignored fields: {few(names, FIELDS_SHOWN)}"] if names else []
        lines += [f"note: {note} ({len(names):,})" for note, names in self.notes.items()]
        if len(self.systems) > 1:
            lines.append(f"note: the rows have {len(self.systems)} different system messages")
        return lines


def run(task: "Task") -> dict:
    """Convert one of a study's published files; the number of rows kept."""
    (name,), raw = task.arguments, task.inputs["raw"]
    if task.settings.drawn:
        checked(raw)
    conversion = convert_file(raw, task.folder / f"{name}.jsonl", task.settings.format)
    return {"rows": {f"{name}.jsonl": len(conversion.records)}}


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
        format_name: its format; recognised by default.
        source: name of the source; by default that of the file's name.
        leave_out_bad_rows: exclude rows that are not of the format, rather than stop.

    Raises:
        UserError: a bad row, by file and line, or a file with no rows to keep (nothing is written
            then); a full disk.
    """
    if to.resolve() == raw.resolve():
        raise UserError(f"{to}: the cases would replace the raw file; name another with --to")
    module = recognise(raw, format_name)
    origin = Origin(source or source_name(raw), raw.name)
    conversion = convert_rows(raw, module, origin, leave_out_bad_rows)
    if not conversion.records:
        raise UserError(f"{raw}: no row could be kept; check the file and --format")
    if isinstance(conversion.records[0], SftRow):
        write_jsonl(to, (asdict(record) for record in conversion.records))
    else:
        write_cases(to, conversion.records)
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
        "system_messages": {
            "different": len(conversion.systems),
            "text": min(conversion.systems) if len(conversion.systems) == 1 else None,
        },
        "forms": dict(conversion.forms),
        "ignored_fields": dict(conversion.ignored),
        **describe(conversion.records),
    }
    write_json(Path(f"{beside}.card.json"), card)
    return conversion


def _texts_at(raw: Path, path: Sequence[str]) -> Iterator[str]:
    """The text at a path of fields in each row that has it; other rows are refused later."""
    for _, line in read_rows(raw):
        with suppress(BadRow, KeyError, TypeError):
            text: Any = parse(line)
            for name in path:
                text = text[name]
            if isinstance(text, str) and text.strip():
                yield text


def convert_rows(raw: Path, module, origin: Origin, leave_out_bad_rows: bool) -> Conversion:
    """Convert every row; a bad row stops with a UserError, or is excluded."""
    conversion = Conversion()
    published_options = not (path := getattr(module, "DIAGNOSIS", None))
    if path:
        origin.diagnoses.update(_texts_at(raw, path))
    for number, line in read_rows(raw):
        try:
            row = parse(line)
            conversion.fields.update(row.keys())
            conversion.ignored.update(unread(row, module.READ))
            converted = module.convert(row, origin, number)
        except BadRow as problem:
            if not leave_out_bad_rows:
                raise UserError(
                    f"{raw}, line {number}: {problem}; fix the row, or leave such rows out with "
                    "--leave-out-bad-rows"
                ) from None
            conversion.exclusions.append(Exclusion(raw.name, number, "", f"{BAD_ROW}{problem}"))
        except Conflict as conflict:
            excluded = Exclusion(raw.name, number, conflict.case_id, str(conflict))
            conversion.exclusions.append(excluded)
        else:
            conversion.add(converted, published_options)
    counts = Counter(conversion.prompts.values())
    if repeated := [name for name, prompt in conversion.prompts.items() if counts[prompt] > 1]:
        conversion.notes[REPEATED] = repeated
    return conversion


def write_exclusions(path: Path, exclusions: Iterable[Exclusion]) -> None:
    """Write exclusions as CSV; without any, only the header."""
    rows = (
        [no_formula(value) if isinstance(value, str) else value for value in astuple(exclusion)]
        for exclusion in exclusions
    )
    write_atomic(path, csv_text(Exclusion.__dataclass_fields__, rows))
