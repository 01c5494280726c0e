"""The analysis's commands: `pcqc answer`, `pcqc tables`, `figures` and others.

Modules that read pandas, scipy and matplotlib are imported where they are needed: the other
commands of `pcqc` need not wait for them.
"""

import json
from collections.abc import Callable
from typing import Any

from analysis.tables_and_figures import FIGURES, TABLES
from pcqc_base.system.terminal import show
from pcqc_study.job_kinds.whole_study import ANSWER
from pcqc_study.program import Name, argument, as_json, option, pcqc, study

BUNDLE = """for a release, into results/bundle/: with dialogues, candidate groups, weights and
report"""


@pcqc.command()
@study
@option("--only NAME", "this one alone", multiple=True, type=Name(TABLES))
def tables(study, only) -> None:
    """Write the tables of a study as tex, csv and md."""
    from analysis import tables

    _draw(study, "tables", tables.write, only)


@pcqc.command()
@study
@option("--only NAME", "this one alone", multiple=True, type=Name(FIGURES))
def figures(study, only) -> None:
    """Write the figures of a study as pdf, svg and png."""
    from analysis import figures

    _draw(study, "figures", figures.write, only)


def _draw(study, kind: str, write: Callable, only) -> None:
    """Write tables or figures again, beside what the workflow wrote, from the newest runs."""
    from analysis.load import load

    paths = write(load(study), study.results / "drawn", only or None)
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    print(f"{files} in {study.results / 'drawn' / kind}")


@pcqc.command()
@study
def docs(study) -> None:
    """Copy a study's tables and figures into the pages that show them."""
    from analysis.copied_tables import copy_pictures, copy_tables

    for page in copy_tables(study):
        print(f"{page}: tables copied")
    for picture in copy_pictures(study):
        print(f"{picture}: copied")


@pcqc.command()
@study
@option("--bundle", BUNDLE, "bundled")
def archive(study, bundled) -> None:
    """Pack what a study collected, for git, or a bundle, for a release."""
    from analysis import archive, bundle

    made = bundle.write(study).iterdir() if bundled else archive.write(study)
    for path in sorted(made):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


@pcqc.command()
@study
@option("--archive", "also write results/archive/tuning.csv and the table of docs/tuning.md")
def tune(study, archive) -> None:
    """Say what a study's trials of settings found, and write the next ones."""
    from pcqc_study.trials import read_archive, write_archive
    from pcqc_study.tuning import load_tuning, trials_here

    trials = trials_here(study, load_tuning(), read_archive())
    show("\n".join(trials.told()))
    if archive:
        from analysis.tables.tuning import write_page

        write_archive(study.name, trials.known)
        show(f"{write_page()}: written")


@pcqc.command()
@study
@argument("methods", "these alone; of several, the first against each other", nargs=-1)
@as_json
def answer(study, methods, as_json) -> None:
    """Print what a study, or some of its methods, found."""
    if methods:
        from analysis.conclusion import answer, answer_of

        if as_json:
            return show(json.dumps(answer(study, methods), indent=1))
        return show("\n".join(answer_of(study, *methods)))
    data = _answered(study)
    table = data.pop("table")
    if as_json:
        return show(json.dumps(data))
    show("\n".join(data["sentences"]))
    if table:
        show(f"\n{table}\n")
    report, remedy = study.results / "report.html", f"`pcqc report {study.name}` makes it"
    show(f"The report: {report if report.exists() else f'not made yet; {remedy}'}")


def _answered(study) -> dict[str, Any]:
    """What all methods of a study answer: as its report has it, where that has today's results."""
    from pcqc_base.system.files import read_json
    from pcqc_base.system.manifest import checked
    from pcqc_study.graph import Jobs

    report = Jobs(study).job("report")
    # One of an earlier version may have been restored, and taken on trust.
    if report.latest.exists() and report.manifest.exists() and (report.path / ANSWER).exists():
        return read_json(checked(report.path / ANSWER))
    from analysis.conclusion import whole_answer
    from analysis.load import load

    return whole_answer(load(study))
