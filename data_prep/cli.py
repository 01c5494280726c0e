"""`pcqc data`: fetch published data, convert it to cases, audit what overlaps; and `pcqc init`."""

from collections.abc import Callable
from pathlib import Path

import click

from pcqc_study.program import FILE, argument, option, pcqc

CASES = "JSON lines, or a CSV file; docs/own-cases.md has the fields"
FOLDER = "data folder (default: the environment's PCQC_DATA, else data/raw)"
BAD_ROWS = "exclude rows that are not of the format, with the reason, instead of stopping"
with_format = option("--format NAME", "recognised by default; docs/data.md lists them")


@pcqc.command()
@argument("study", "its name")
@option("--cases FILE", CASES, type=FILE, required=True)
def init(study, cases) -> None:
    """Write a study of your own cases, from a file of them."""
    from data_prep.new_study import init

    print(f"{init(study, cases)}: written; edit it, or go on as it is:")
    print(f"pcqc doctor {study}")
    print(f"make results STUDY={study}")


@pcqc.group(no_args_is_help=False, subcommand_metavar="ACTION [ARGS]...")
def data() -> None:
    """Fetch published data, convert it to cases, and audit what overlaps.

    No other command downloads cases.
    """


@data.command()
@argument("sources", "names, as the list gives them", nargs=-1)
@option("--to FOLDER", FOLDER, type=FILE)
def fetch(sources, to) -> None:
    """Download published files from their homes, by pinned revision and digest.

    First prints what each is and its licence; without a name it does only that. Checks files that
    are already there, and what the rows of each file hold.
    """
    from data_prep.check import check_file
    from data_prep.fetch import fetch, introduce
    from data_prep.sources import load_sources
    from pcqc_base.errors import UserError, nearest
    from pcqc_base.settings.data import data_folder

    known = load_sources()
    if unknown := [name for name in sources if name not in known]:
        raise UserError(f"no source '{unknown[0]}'{nearest(unknown[0], known)}")
    for name in sources:
        path = fetch(known[name], to or data_folder())
        if known[name].holds:
            check_file(path, source=known[name])
    if not sources:
        print("\n".join(introduce(source) for source in known.values()))


@data.command()
@argument("file", type=FILE)
@with_format
def check(file, format) -> None:
    """Say what is wrong with a file of cases.

    Says which format it has, how many rows are usable, and what is wrong with the others, line by
    line. Writes nothing. Exit status 2 if a row must be fixed.
    """
    from data_prep.check import check_file

    check_file(file, format)


@data.command()
@argument("raw", "the file as its source has it", type=FILE)
@option("--to CASES.jsonl", type=FILE, required=True)
@with_format
@option("--source NAME", "of the source (default: by the file's name)")
@option("--leave-out-bad-rows", BAD_ROWS)
def convert(raw, to, format, source, leave_out_bad_rows) -> None:
    """Convert a published file to cases (or SFT rows).

    Beside CASES.jsonl it writes CASES.exclusions.csv, with a reason a row, and CASES.card.json, the
    data card.
    """
    from data_prep.convert import convert_file

    conversion = convert_file(raw, to, format, source, leave_out_bad_rows)
    kept, excluded = len(conversion.records), len(conversion.exclusions)
    print(f"{to}: {kept} of {kept + excluded} rows kept, {excluded} excluded")
    for exclusion in conversion.exclusions:
        named = f" ({exclusion.case_id})" if exclusion.case_id else ""
        print(f"  excluded line {exclusion.row}{named}: {exclusion.reason}")
    for line in conversion.remarks:
        print(f"  {line}")


class _SeveralValues(click.Command):
    """Takes several values after an option, `--training A B`, as if the option were repeated."""

    def parse_args(self, ctx, args):
        option, spread = None, []
        for word in args:
            if word.startswith("-"):
                option = word if word in ("--training", "--evaluation") else None
                spread += [] if option else [word]
            else:
                spread += [option, word] if option else [word]
        return super().parse_args(ctx, spread)


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and "/" not in name else (Path(text).stem, Path(text))


def _files(role: str) -> Callable:
    text = f"{role} cases or SFT rows, as converted (name: the file's own by default)"
    usage = f"--{role} [NAME=]FILE.jsonl..."
    return option(usage, text, type=_named_file, multiple=True, required=True)


@data.command(cls=_SeveralValues)
@_files("training")
@_files("evaluation")
@option("--to FOLDER", type=FILE, required=True)
def overlap(training, evaluation, to) -> None:
    """Audit the overlap of training and evaluation.

    Compares the first prompts of evaluation cases with those of training cases and SFT rows: equal
    in full, equal in case and problem, or near by cosine of character 5-grams (0.85) or of words
    and pairs of words (0.90). Writes counts.csv, pairs.csv and inputs.json.
    """
    from data_prep.overlap_audit import audit

    for row in audit(training, evaluation, to):
        kinds = ", ".join(f"{name} {row[name]}" for name in row if isinstance(row[name], int))
        print(f"{row['evaluation']} against {row['training']}: {kinds}")
    print(f"pairs to read: {to / 'pairs.csv'}")
