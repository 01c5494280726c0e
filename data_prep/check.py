"""`pcqc data check`: which form a file has, how many rows are usable, and what is wrong by row."""

from collections import Counter
from pathlib import Path

from data_prep.convert import BAD_ROW, NOTHING_TO_ASK, Conversion, convert_rows
from data_prep.recognise import recognise
from data_prep.rows import Origin
from data_prep.sources import Holds, Source, known_source, source_name
from pcqc.cases.case import Case
from pcqc_base.errors import UserError

SHOWN = 100  # problems printed


def check_file(
    raw: Path,
    format_name: str | None = None,
    source: Source | None = None,
    name: str | None = None,
) -> Conversion:
    """Print what a file holds, without writing anything, and return it.

    Args:
        raw: a published file, or one's own cases.
        format_name: its format; recognised by default.
        source: the published file that it is, its digest checked; by default the name tells.
        name: what the file is called; its path by default.

    Raises:
        UserError: a file of no known format, bad rows, or a published file that does not hold what
            it should; the lines before name each.
    """
    module, name = recognise(raw, format_name), name or str(raw)
    conversion = convert_rows(raw, module, Origin(source_name(raw), raw.name), True)
    unready = [r for r in conversion.records if isinstance(r, Case) and not r.consultable]
    total = len(conversion.records) + len(conversion.exclusions)
    usable = len(conversion.records) - len(unready)
    print(f"{name}: format '{module.NAME}', {total:,} rows, {usable:,} usable")
    for form, count in conversion.forms.items():
        print(f"  {form}: {count:,} rows")
    for line in conversion.remarks:
        print(f"  {line}")
    problems = {e.row: e.reason for e in conversion.exclusions}
    problems |= {int(case.origin["row"]): NOTHING_TO_ASK for case in unready}
    for row in sorted(problems)[:SHOWN]:
        print(f"  line {row}: {problems[row].removeprefix(BAD_ROW)}")
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN:,} more such lines")
    pinned, source = bool(source), source or known_source(raw)
    differing = []
    if source and source.holds:
        differing = differences(source.holds, module.NAME, conversion)
    for difference in differing:
        print(f"  differs from the published '{source.name}': {difference}")
    if bad := sorted(row for row, reason in problems.items() if reason.startswith(BAD_ROW)):
        raise UserError(
            f"{name}, line {bad[0]}: {problems[bad[0]].removeprefix(BAD_ROW)} "
            f"({len(bad):,} of {total:,} rows must be fixed or removed; see above)"
        )
    if differing and pinned:
        raise UserError(
            f"{name}: the published '{source.name}' itself is not what the converters expect, see "
            f"above ({len(differing)}); it stays there: correct data_prep/sources.yaml"
        )
    if differing:
        raise UserError(
            f"{name}: not the published '{source.name}', see above ({len(differing)}); fetch it "
            "again, or give a file of your own another name"
        )
    return conversion


def differences(holds: Holds, format_name: str, conversion: Conversion) -> list[str]:
    """How a file differs from its description, a clause each.

    Bad rows are left out: each has a message of its own.
    """
    if format_name != holds.format:
        return [f"its format is '{format_name}', not '{holds.format}'"]
    records, excluded = conversion.records, conversion.exclusions
    clauses = []
    if (rows := len(records) + len(excluded)) != holds.rows:
        clauses.append(f"it has {rows:,} rows, not {holds.rows:,}")
    conflicts = sum(not exclusion.reason.startswith(BAD_ROW) for exclusion in excluded)
    if conflicts != holds.excluded:
        clauses.append(f"{conflicts:,} rows contradict themselves, not {holds.excluded:,}")
    if holds.system_messages not in (None, len(conversion.systems)):
        clauses.append(
            f"it has {len(conversion.systems)} different system messages, "
            f"not {holds.system_messages}"
        )
    if holds.sets:
        clauses += _different_counts(
            "set", holds.sets, Counter(r.origin.get("set") for r in records)
        )
    if holds.fields:
        expected = dict.fromkeys(holds.fields, rows)
        clauses += _different_counts("field", expected, conversion.fields)
    return clauses


def _different_counts(kind: str, expected: dict, actual: Counter) -> list[str]:
    return [
        f"{actual[name]:,} rows have the {kind} '{name}', not {expected.get(name, 0):,}"
        for name in sorted({*expected, *actual}, key=str)
        if actual[name] != expected.get(name, 0)
    ]
