"""The analysis's commands: `pcqc compare`, `pcqc tables`, `figures`, `report` and others."""

import argparse
import json

from analysis.contents import FIGURES, TABLES


def register(subparsers) -> None:
    """Add the commands to the `pcqc` parser; each sets `handler`, called with the arguments."""
    compare = subparsers.add_parser(
        "compare", help="paired comparison of two prediction files (columns case_id, correct)"
    )
    compare.add_argument("minuend", metavar="A.parquet")
    compare.add_argument("subtrahend", metavar="B.parquet")
    compare.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    compare.set_defaults(handler=run_compare)
    for name, items, what, run in (
        ("tables", TABLES, "write the tables of a study as tex, csv and md", run_tables),
        ("figures", FIGURES, "write the figures of a study as pdf, svg and png", run_figures),
    ):
        parser = subparsers.add_parser(name, help=what)
        parser.add_argument("study", metavar="STUDY", help="name or file of a study")
        parser.add_argument(
            "--only", metavar="NAME", action="append", choices=list(items), help="this one alone"
        )
        parser.set_defaults(handler=run)
    for name, what, run in (
        ("report", "write the report of a study, one HTML file", run_report),
        ("transcripts", "write the pages to read a study's consultations", run_transcripts),
        ("peers", "write the table of published credits that are evaluated", run_peers),
        ("paper", "collect tables and figures in paper.tex and, with LaTeX, paper.pdf", run_paper),
        ("docs", "copy a study's tables and figures into the pages that show them", run_docs),
        ("archive", "pack what a study collected into results/archive/, for git", run_archive),
        ("restore", "unpack a study's archive, to draw its tables and figures again", run_restore),
    ):
        parser = subparsers.add_parser(name, help=what)
        parser.add_argument("study", metavar="STUDY", help="name or file of a study")
        parser.set_defaults(handler=run)

    answer = subparsers.add_parser(
        "answer", help="print what a study, or some of its methods, found"
    )
    answer.add_argument("study", metavar="STUDY", help="name or file of a study")
    answer.add_argument("methods", metavar="METHOD", nargs="*", help="these alone")
    answer.set_defaults(handler=run_answer)


def run_compare(arguments: argparse.Namespace) -> None:
    """Gain of A over B with its paired interval, discordant counts and McNemar p."""
    from analysis.statistics.paired import compare

    found = compare(arguments.minuend, arguments.subtrahend)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"{found['cases']:,} cases: {found['minuend_accuracy']:.2f}% against "
        f"{found['subtrahend_accuracy']:.2f}%, gain {found['gain']:+.2f} points "
        f"[{found['low']:+.2f}, {found['high']:+.2f}] (95%, {found['resamples']:,} resamples of "
        f"cases); discordant {found['only_minuend']} / {found['only_subtrahend']}, exact McNemar "
        f"p = {found['p']:.4g}"
    )


def run_tables(arguments: argparse.Namespace) -> None:
    """Write `results/<study>/tables/`."""
    from analysis import tables

    collected = _load(arguments.study)
    _finish(collected.study, "tables", tables.write(collected, arguments.only))


def run_figures(arguments: argparse.Namespace) -> None:
    """Write `results/<study>/figures/`."""
    from analysis import figures

    collected = _load(arguments.study)
    _finish(collected.study, "figures", figures.write(collected, arguments.only))


def run_report(arguments: argparse.Namespace) -> None:
    """Write `results/<study>/report.html`."""
    from analysis import report

    collected = _load(arguments.study)
    _finish(collected.study, "report", [report.write(collected)])


def run_transcripts(arguments: argparse.Namespace) -> None:
    """Write `results/<study>/transcripts/`."""
    from analysis import transcripts
    from analysis.load import written
    from pcqc.study import load_study

    study = load_study(arguments.study)
    page = transcripts.write(study)
    files = [path for path in page.parent.rglob("*") if path.is_file()]
    written(study, "transcripts", files)
    print(f"open {page}")


def run_peers(arguments: argparse.Namespace) -> None:
    """Write the table `peers`."""
    from analysis.tables import peers
    from pcqc.study import load_study

    study = load_study(arguments.study)
    _finish(study, "peers", peers.write(study))


def run_answer(arguments: argparse.Namespace) -> None:
    """Print the conclusion of a study and where its report is, or the numbers of methods."""
    from analysis.answer import answer_of, conclusion
    from analysis.load import load
    from pcqc.study import load_study

    study = load_study(arguments.study)
    for method in arguments.methods:
        print("\n".join(answer_of(study, method)))
    if not arguments.methods:
        print("\n".join(conclusion(load(study))))
        print(f"The report: {study.results / 'report.html'}")


def run_paper(arguments: argparse.Namespace) -> None:
    """Write `results/<study>/paper.tex`, and `paper.pdf` where a LaTeX is installed."""
    from analysis import paper

    collected = _load(arguments.study)
    files = paper.write(collected)
    if not paper.latex():
        print("pdflatex is not installed: paper.tex was written, paper.pdf was skipped")
    _finish(collected.study, "paper", files)


def run_docs(arguments: argparse.Namespace) -> None:
    """Copy tables and figures of a study into README and docs."""
    from analysis.copied_tables import copy_pictures, copy_tables
    from pcqc.study import load_study

    study = load_study(arguments.study)
    for page in copy_tables(study):
        print(f"{page}: tables copied")
    for picture in copy_pictures(study):
        print(f"{picture}: copied")


def run_archive(arguments: argparse.Namespace) -> None:
    """Write the archives of a study and of its replicates."""
    from analysis import archive
    from pcqc.study import load_study

    for path in archive.write(load_study(arguments.study)):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def run_restore(arguments: argparse.Namespace) -> None:
    """Unpack them, and say what can be done with them."""
    from analysis import archive
    from pcqc.study import load_study

    study = load_study(arguments.study)
    for folder in archive.restore(study):
        print(f"{folder}: restored")
    if study.synthetic:
        every = " and ".join(f"`pcqc clinic {name}`" for name in (study.name, *study.replicates))
        print(f"tables and figures about questions need the cases too: {every}")
    print(f"then `pcqc tables {study.name}`, `pcqc figures {study.name}`")


def _load(name: str):
    from analysis.load import load
    from pcqc.study import load_study

    return load(load_study(name))


def _finish(study, job: str, paths: list) -> None:
    """Write the job's receipt, and say what was written."""
    from analysis.load import written

    written(study, job, paths)
    folders = sorted({str(path.parent) for path in paths})
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    print(f"{files} in {', '.join(folders)}")
