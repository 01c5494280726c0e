"""`pcqc data`: fetch published data, convert it to cases, audit what overlaps; and `pcqc init`."""

import argparse
from pathlib import Path


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add `pcqc init`, and `pcqc data`; each action sets `handler`, called with the arguments."""
    text = "write a study of your own cases, from a file of them"
    init = subparsers.add_parser("init", help=text, description=text)
    init.add_argument("study", help="its name")
    help_text = "JSON lines, or a CSV file; docs/own-cases.md has the fields"
    init.add_argument("--cases", type=Path, required=True, metavar="FILE", help=help_text)
    init.set_defaults(handler=_init)
    data = subparsers.add_parser(
        "data",
        help="fetch, convert and audit published cases",
        description="Fetch published data, convert it to cases, and audit what overlaps. "
        "No other command downloads cases.",
    )
    actions = data.add_subparsers(required=True, metavar="ACTION")
    _register_fetch(actions)
    _register_check(actions)
    _register_convert(actions)
    _register_overlap(actions)


def _init(arguments: argparse.Namespace) -> None:
    from data_prep.new_study import init

    print(f"{init(arguments.study, arguments.cases)}: written; edit it, or go on as it is:")
    print(f"pcqc doctor {arguments.study}")
    print(f"make results STUDY={arguments.study}")


def _register_fetch(actions) -> None:
    text = (
        "Download published files from their homes, by pinned revision and digest. First prints "
        "what each is and its licence; without a name it does only that. Checks files that are "
        "already there, and what the rows of each file hold."
    )
    fetch = actions.add_parser("fetch", help="download published files", description=text)
    fetch.add_argument("sources", nargs="*", metavar="SOURCE", help="names, as the list gives them")
    fetch.add_argument(
        "--to",
        type=Path,
        metavar="FOLDER",
        help="data folder (default: the environment's PCQC_DATA, else data/raw)",
    )
    fetch.set_defaults(handler=_fetch)


def _fetch(arguments: argparse.Namespace) -> None:
    from data_prep.check import check_file
    from data_prep.fetch import fetch, introduce
    from data_prep.sources import load_sources
    from pcqc_base.errors import UserError, nearest
    from pcqc_base.settings.data import data_folder

    known = load_sources()
    if unknown := [name for name in arguments.sources if name not in known]:
        raise UserError(f"no source '{unknown[0]}'{nearest(unknown[0], known)}")
    for name in arguments.sources:
        path = fetch(known[name], arguments.to or data_folder())
        if known[name].holds:
            check_file(path, source=known[name])
    if not arguments.sources:
        print("\n".join(introduce(source) for source in known.values()))


def _register_check(actions) -> None:
    text = (
        "Say which format a file has, how many rows are usable, and what is wrong with the others, "
        "line by line. Writes nothing. Exit status 2 if a row must be fixed."
    )
    check = actions.add_parser("check", help="what is wrong with a file of cases", description=text)
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--format", help="recognised by default; docs/data.md lists them")
    check.set_defaults(handler=_check)


def _check(arguments: argparse.Namespace) -> None:
    from data_prep.check import check_file

    check_file(arguments.file, arguments.format)


def _register_convert(actions) -> None:
    text = (
        "Convert a published file to cases (or SFT rows). Beside CASES.jsonl it writes "
        "CASES.exclusions.csv, with a reason a row, and CASES.card.json, the data card."
    )
    convert = actions.add_parser("convert", help="a published file to cases", description=text)
    convert.add_argument("raw", type=Path, metavar="RAW", help="the file as its source has it")
    convert.add_argument("--to", type=Path, required=True, metavar="CASES.jsonl")
    convert.add_argument("--format", help="recognised by default; docs/data.md lists them")
    convert.add_argument("--source", help="name of the source (default: by the file's name)")
    convert.add_argument(
        "--leave-out-bad-rows",
        action="store_true",
        help="exclude rows that are not of the format, with the reason, instead of stopping",
    )
    convert.set_defaults(handler=_convert)


def _convert(arguments: argparse.Namespace) -> None:
    from data_prep.convert import convert_file

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
        named = f" ({exclusion.case_id})" if exclusion.case_id else ""
        print(f"  excluded line {exclusion.row}{named}: {exclusion.reason}")
    for line in conversion.remarks:
        print(f"  {line}")


def _register_overlap(actions) -> None:
    text = (
        "Compare the first prompts of evaluation cases with those of training cases and SFT rows: "
        "equal in full, equal in case and problem, or near by cosine of character 5-grams (0.85) "
        "or of words and pairs of words (0.90). Writes counts.csv, pairs.csv and inputs.json."
    )
    overlap = actions.add_parser(
        "overlap", help="audit the overlap of training and evaluation", description=text
    )
    for role in ("training", "evaluation"):
        overlap.add_argument(
            f"--{role}",
            type=_named_file,
            nargs="+",
            action="extend",
            required=True,
            metavar="[NAME=]FILE.jsonl",
            help=f"{role} cases or SFT rows, as converted (name: the file's own by default)",
        )
    overlap.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    overlap.set_defaults(handler=_overlap)


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and "/" not in name else (Path(text).stem, Path(text))


def _overlap(arguments: argparse.Namespace) -> None:
    from data_prep.overlap_audit import audit

    for row in audit(arguments.training, arguments.evaluation, arguments.to):
        kinds = ", ".join(f"{name} {row[name]}" for name in row if isinstance(row[name], int))
        print(f"{row['evaluation']} against {row['training']}: {kinds}")
    print(f"pairs to read: {arguments.to / 'pairs.csv'}")
