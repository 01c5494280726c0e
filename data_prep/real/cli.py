"""`pcqc data`: fetch published data, convert it to cases, and audit what overlaps."""

import argparse
from pathlib import Path


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add `pcqc data` and its actions; each action sets `handler`, called with the arguments."""
    data = subparsers.add_parser(
        "data",
        help="fetch, convert and audit published cases",
        description="Fetch published data, convert it to cases, and audit what overlaps. "
        "No other command downloads anything.",
    )
    actions = data.add_subparsers(required=True, metavar="ACTION")
    _register_convert(actions)


def _register_convert(actions) -> None:
    from data_prep.real.recognise import FORMATS

    text = (
        "Convert a published file to cases (or SFT rows). Beside CASES.jsonl it writes "
        "CASES.exclusions.csv, with a reason a row, and CASES.card.json, the data card."
    )
    convert = actions.add_parser("convert", help="a published file to cases", description=text)
    convert.add_argument("raw", type=Path, metavar="RAW", help="the file as its source has it")
    convert.add_argument("--to", type=Path, required=True, metavar="CASES.jsonl")
    convert.add_argument("--format", choices=tuple(FORMATS), help="recognised by default")
    convert.add_argument("--source", help="name of the source (default: by the file's name)")
    convert.add_argument(
        "--leave-out-bad-rows",
        action="store_true",
        help="exclude rows that are not of the format, with the reason, rather than stop",
    )
    convert.set_defaults(handler=_convert)


def _convert(arguments: argparse.Namespace) -> None:
    from data_prep.real.convert import convert_file

    conversion = convert_file(
        arguments.raw,
        arguments.to,
        arguments.format,
        arguments.source,
        arguments.leave_out_bad_rows,
    )
    kept, excluded = len(conversion.records), len(conversion.exclusions)
    print(f"{arguments.to}: {kept} of {kept + excluded} rows kept, {excluded} excluded")
    for exclusion in conversion.exclusions:
        print(f"  excluded line {exclusion.row} {exclusion.case_id}: {exclusion.reason}")
    for note, names in conversion.notes.items():
        print(f"  note: {note} ({len(names)})")
