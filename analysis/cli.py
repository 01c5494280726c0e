"""The analysis's commands: `pcqc compare`, `pcqc tables`, `figures`, `report` and others."""

import argparse
import json

from analysis.tables_and_figures import FIGURES, TABLES
from pcqc.study import load_study

# Modules that read pandas, scipy and matplotlib are imported where they are needed: the other
# commands of `pcqc` need not wait for them.


def register(subparsers) -> None:
    """Add the commands to the `pcqc` parser; each sets `handler`, called with the arguments."""
    compare = subparsers.add_parser(
        "compare", help="paired comparison of two prediction files (columns case_id, correct)"
    )
    compare.add_argument("minuend", metavar="A.parquet")
    compare.add_argument("subtrahend", metavar="B.parquet")
    compare.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    compare.set_defaults(handler=run_compare)
    of_a_study = {
        "tables": (run_drawing, "write the tables of a study as tex, csv and md"),
        "figures": (run_drawing, "write the figures of a study as pdf, svg and png"),
        "docs": (run_docs, "copy a study's tables and figures into the pages that show them"),
        "archive": (run_archive, "pack what a study collected into results/archive/, for git"),
        "restore": (run_restore, "unpack a study's archive, to draw its tables and figures again"),
        "answer": (run_answer, "print what a study, or some of its methods, found"),
    }
    for name, (handler, what) in of_a_study.items():
        parser = subparsers.add_parser(name, help=what)
        parser.add_argument("study", metavar="STUDY", help="name or file of a study")
        parser.set_defaults(handler=handler, kind=name)
        if name in ("tables", "figures"):
            items = list(TABLES if name == "tables" else FIGURES)
            parser.add_argument(
                "--only", metavar="NAME", action="append", choices=items, help="this one alone"
            )
        if name == "answer":
            parser.add_argument("methods", metavar="METHOD", nargs="*", help="these alone")


def run_compare(arguments: argparse.Namespace) -> None:
    """Gain of A over B with its paired interval, discordant counts and McNemar p."""
    from analysis.statistics.paired import compare

    result = compare(arguments.minuend, arguments.subtrahend)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(
        f"{result['cases']:,} cases: {result['minuend_accuracy']:.2f}% against "
        f"{result['subtrahend_accuracy']:.2f}%, gain {result['gain']:+.2f} points "
        f"[{result['low']:+.2f}, {result['high']:+.2f}] (95%, {result['resamples']:,} resamples of "
        f"cases); discordant {result['only_minuend']} / {result['only_subtrahend']}, exact McNemar "
        f"p = {result['p']:.4g}"
    )


def run_drawing(arguments: argparse.Namespace) -> None:
    """Write tables or figures again, beside what the workflow wrote, from the newest runs."""
    from analysis import figures, tables
    from analysis.load import load

    study = load_study(arguments.study)
    write = tables.write if arguments.kind == "tables" else figures.write
    paths = write(load(study), study.results / "drawn", arguments.only)
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    print(f"{files} in {study.results / 'drawn' / arguments.kind}")


def run_docs(arguments: argparse.Namespace) -> None:
    """Copy tables and figures of a study into README and docs."""
    from analysis.copied_tables import copy_pictures, copy_tables

    study = load_study(arguments.study)
    for page in copy_tables(study):
        print(f"{page}: tables copied")
    for picture in copy_pictures(study):
        print(f"{picture}: copied")


def run_archive(arguments: argparse.Namespace) -> None:
    """Write the archives of a study and of its replicates."""
    from analysis import archive

    for path in archive.write(load_study(arguments.study)):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def run_restore(arguments: argparse.Namespace) -> None:
    """Unpack them, and say what can be done with them."""
    from analysis import archive

    study = load_study(arguments.study)
    for folder in archive.restore(study):
        print(f"{folder}: restored")
    if study.synthetic:
        every = " and ".join(f"`pcqc clinic {name}`" for name in (study.name, *study.replicates))
        print(f"tables and figures about questions need the cases too: {every}")
    print(f"then `pcqc report {study.name}`")


def run_answer(arguments: argparse.Namespace) -> None:
    """Print the conclusion of a study and where its report is, or the numbers of methods."""
    from analysis.conclusion import answer_of, conclusion
    from analysis.formats import plain
    from analysis.load import load
    from analysis.tables import build

    study = load_study(arguments.study)
    for method in arguments.methods:
        print("\n".join(answer_of(study, method)))
    if not arguments.methods:
        collected = load(study)
        print("\n".join(conclusion(collected)))
        if not TABLES["overview"].missing(study):
            print(f"\n{plain(build('overview', collected))}\n")
        print(f"The report: {study.results / 'report.html'}")
