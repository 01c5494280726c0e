"""The analysis's commands: `pcqc answer`, `pcqc tables`, `figures` and others."""

import argparse
import json

from analysis.tables_and_figures import FIGURES, TABLES
from pcqc_base.system.terminal import show
from pcqc_study.settings import load_study

# Modules that read pandas, scipy and matplotlib are imported where they are needed: the other
# commands of `pcqc` need not wait for them.


def register(subparsers) -> None:
    """Add the commands to the `pcqc` parser; each sets `handler`, called with the arguments."""
    of_a_study = {
        "tables": (run_drawing, "write the tables of a study as tex, csv and md"),
        "figures": (run_drawing, "write the figures of a study as pdf, svg and png"),
        "docs": (run_docs, "copy a study's tables and figures into the pages that show them"),
        "archive": (
            run_archive,
            "pack what a study collected, for git, or a bundle, for a release",
        ),
        "tune": (run_tune, "say what a study's trials of settings found, and write the next ones"),
        "answer": (run_answer, "print what a study, or some of its methods, found"),
    }
    for name, (handler, what) in of_a_study.items():
        parser = subparsers.add_parser(name, help=what, description=what)
        parser.add_argument("study", metavar="STUDY", help="name or file of a study")
        parser.set_defaults(handler=handler, kind=name)
        if name in ("tables", "figures"):
            items = list(TABLES if name == "tables" else FIGURES)
            parser.add_argument(
                "--only", metavar="NAME", action="append", choices=items, help="this one alone"
            )
        if name == "archive":
            parser.add_argument(
                "--bundle",
                action="store_true",
                help="for a release, into results/bundle/: with dialogues, candidate groups, "
                "weights and report",
            )
        if name == "tune":
            text = "also write results/archive/tuning.csv and the table of docs/tuning.md"
            parser.add_argument("--archive", action="store_true", help=text)
        if name == "answer":
            parser.add_argument(
                "methods",
                metavar="METHOD",
                nargs="*",
                help="these alone; of several, the first against each other",
            )
            parser.add_argument("--json", action="store_true", help="print JSON")


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
    """Write the archives of a study and of its replicates, or its bundle."""
    from analysis import archive, bundle

    study = load_study(arguments.study)
    made = bundle.write(study).iterdir() if arguments.bundle else archive.write(study)
    for path in sorted(made):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def run_tune(arguments: argparse.Namespace) -> None:
    """Print what is known of a study's trials, and the commands that make the next ones."""
    from pcqc_study.trials import read_archive, write_archive
    from pcqc_study.tuning import Trials, load_tuning

    study, tuning, archived = load_study(arguments.study), load_tuning(), read_archive()
    here = Trials(study, tuning, archived).read()
    trials = Trials(study, tuning, [*archived, *here])
    show("\n".join(trials.told()))
    if arguments.archive:
        from analysis.tables.tuning import write_page

        write_archive(study.name, trials.known)
        show(f"{write_page()}: written")


def run_answer(arguments: argparse.Namespace) -> None:
    """Print the conclusion of a study and where its report is, or the numbers of methods."""
    from analysis.conclusion import answer, answer_of, conclusion
    from analysis.formats import plain, plain_rows
    from analysis.load import load
    from analysis.tables import build

    study = load_study(arguments.study)
    if arguments.methods:
        if arguments.json:
            return show(json.dumps(answer(study, arguments.methods), indent=1))
        return show("\n".join(answer_of(study, *arguments.methods)))
    collected = load(study)
    sentences = conclusion(collected)
    shown = not TABLES["overview"].missing(study)
    table = build("overview", collected) if shown else None
    if arguments.json:
        rows = plain_rows(table) if table else []
        return show(json.dumps({"study": study.name, "sentences": sentences, "methods": rows}))
    show("\n".join(sentences))
    if table:
        show(f"\n{plain(table)}\n")
    report, remedy = study.results / "report.html", f"`pcqc report {study.name}` makes it"
    show(f"The report: {report if report.exists() else f'not made yet; {remedy}'}")
