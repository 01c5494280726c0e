"""Commands of `pcqc` that look at a run or a study, or change what is recorded of it."""

import json
import sys
from pathlib import Path

import click

from pcqc_base.errors import UserError
from pcqc_base.system.terminal import show
from pcqc_study.program import (
    COUNT,
    argument,
    as_json,
    load,
    of_a_run,
    option,
    pcqc,
    study,
    study_name,
)

CANDIDATES = """show N candidates at each state with their utilities; by default on a case whose
first ones differ"""
CASES = "also hold consultations on N cases, and show what doctor, patient and scorer read and say"
CHANGES = "such as beta=0.5, tree.budget=32 or rl.learning_rate=5e-4; may be repeated"
LETTERS = "e.g. A,B (default: the method's first); again with others, it adds them"
MEASURE = "measure updates, from which `pcqc plan` has its hours (default: 3)"
SIDE = "STUDY/METHOD/RUN, such as clinic/pcqc/A; or a Parquet file of predictions"


def _print(data, text, as_json: bool, labels=None) -> None:
    """Print data as JSON, or as the text that a function makes of them, with colours of `show`."""
    show(json.dumps(data, indent=1) if as_json else text(data), labels or {})


@pcqc.command()
@of_a_run
@option("--case ID", "the benchmark's first by default")
@option("--benchmark NAME", "the development benchmark by default")
@option("--be-patient", "answer the doctor's questions yourself")
@option("--candidates N", CANDIDATES, type=COUNT, default=1)
@option("--seed N", "of the random numbers; 0 by default", type=int, default=0)
def consult(study, method, run, **options) -> None:
    """Watch a run's doctor on a case, or be its patient, in the terminal."""
    from pcqc_study.consult import consult

    consult(study, method, run, **options)


@pcqc.command()
@of_a_run
@as_json
def explain(study, method, run, as_json) -> None:
    """Say what a run was made from, whether it would be made again, and why."""
    from pcqc_study.explain import explain, explained

    _print(explain(study, method, run), explained, as_json)


@pcqc.command()
@argument("a", SIDE)
@argument("b", "likewise; STUDY/METHOD alone is its first run")
@as_json
def diff(a, b, as_json) -> None:
    """Say what differs between two runs: settings, source, and accuracy case by case."""
    from pcqc_study.diff import diff, told

    _print(diff(a, b), told, as_json)


@pcqc.command()
@study
@argument("method", "with a run: of this run alone", default="")
@argument("run", "letter of the run", default="")
@option("--because TEXT", "why; recorded with the results", required=True)
def accept(study, method, run, because) -> None:
    """Declare a study, or a run of it, still valid after an edit that is known to be harmless."""
    from pcqc_study.explain import accept

    show("\n".join(accept(study, method, run, because)))


@pcqc.command()
@study
@option("--remove", "delete them; asks first")
@option("--yes", "do not ask before deleting")
def clean(study, remove, yes) -> None:
    """List results of earlier fingerprints, or delete them."""
    from pcqc_study import clean

    results = clean.outdated(study)
    show(clean.listing(results))
    if not remove or not results:
        return
    if not yes:
        print("delete them for good? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return show("nothing was deleted")
    clean.remove(results)
    show("deleted")


@pcqc.command()
@study
@option("--from FOLDER", "of a bundle; results/archive by default", "folder")
def restore(study, folder) -> None:
    """Unpack a study's archive or bundle, and make what follows from its runs."""
    from analysis import archive, bundle
    from pcqc_study.run_job import finish_restored
    from pcqc_study.study_file.replicates import replicates

    restored = bundle.restore(study, Path(folder or archive.ARCHIVES))
    show(f"{study.results}: {len(restored)} results restored")
    for member in (*replicates(study), study):  # the study's report shows its replicates
        for job in finish_restored(member, shown=member is study):
            show(f"{job.path}: made")
    name = study.name
    show(f"`pcqc answer {name}` says what it found; `snakemake --cores all METHOD --config")
    show(f"study={name}` makes a method's runs again, with what an archive leaves out")


@pcqc.command()
@argument("method", "a method of the study")
@option("--set SETTING=VALUE", CHANGES, "changes", multiple=True, required=True)
@option("--study STUDY", "name of a study, or a path", default="clinic")
@option("--name NAME", "of the variation; made of method and settings by default")
@option("--runs LETTERS", LETTERS, default="")
def vary(method, changes, study, name, runs) -> None:
    """Record a variation of a method, which the workflow then makes by its name."""
    from pcqc_study.study_file.vary import vary

    letters = [letter.strip() for letter in runs.split(",") if letter.strip()]
    name, path = vary(study, method, changes, name=name, runs=letters)
    show(f"{name} is recorded in {path}; make it with")
    show(f"snakemake --cores all {name} --config study={study}")


@pcqc.command()
@argument("study", "all studies with results where none is named", callback=load, required=False)
@as_json
@option("--watch", "one screen, renewed while the workflow runs")
def status(study, as_json, watch) -> None:
    """Say what is done, running, stale, failed or left."""
    from pcqc_study.status import STYLES, status, status_of_all, told

    if watch:
        from pcqc_study.watch import watch

        if not study:
            raise UserError("status --watch: name the study to watch")
        return watch(study)
    if study:
        return _print(status(study), told, as_json, STYLES)
    _print(status_of_all(), lambda lines: "\n".join(lines.values()), as_json)


@pcqc.command()
@study
def follow(study) -> None:
    """Send MLflow the curves of running trainings, and other trackers finished runs too.

    MLflow has finished runs from the workflow; others (`tracking.report_to`) from here: what they
    lack is sent when the workflow has ended, or at once where none is running.
    """
    from pcqc_study.follow import follow

    follow(study)


@pcqc.command()
@of_a_run
@argument("repository", "of Hugging Face, as me/pcqc-clinic; made private where it is missing")
@option("--public", "make a missing repository public")
def push(study, method, run, repository, public) -> None:
    """Put a run's selected checkpoint, with a card, in a Hugging Face repository.

    The token comes from the environment variable HF_TOKEN and is written nowhere.
    """
    from pcqc_study.push import push

    show(push(study, method, run, repository, public))


@pcqc.command()
@study
def check(study) -> None:
    """Check a study's settings and print them."""
    show(json.dumps(study.to_dict(), indent=1))


@pcqc.command()
@study_name
@option("--measure [UPDATES]", MEASURE, type=COUNT, is_flag=False, flag_value=3)
@option("--method METHOD", "whose updates to measure; by default one in which every role works")
@option("--cases N", CASES, type=COUNT)
def doctor(study, measure, method, cases) -> None:
    """Check this machine against a study, each line with its remedy."""
    if measure and cases:  # a measurement takes the place of the trial
        raise click.UsageError("--cases: not allowed with --measure")
    from pcqc_gpu.doctor import examine
    from pcqc_study.study_file import load_study

    loaded = load_study(study)
    if method and not measure:
        raise UserError("--method goes with --measure; add it")
    examine(loaded, study, measure, method, cases or 0)


@pcqc.command()
@study
@argument("command", "such as -- make results", nargs=-1, type=click.UNPROCESSED)
def serve(study, command) -> None:
    """Start vLLM's servers of a study's patient and scorer, and run a command beside them.

    The study's `servers` name ports of this machine. The command follows after --; when it ends the
    servers end, and without one they run until Ctrl-C.
    """
    from pcqc_gpu.serve import serve

    raise click.exceptions.Exit(serve(study, command))


@pcqc.command()
@study
@as_json
def plan(study, as_json) -> None:
    """Say what a study needs; refuse what cannot fit.

    Prints disk, the memory that each role needs and each device has, from the settings alone:
    nothing is loaded, no GPU is asked. Hours are those of methods whose updates were measured
    (`pcqc doctor --measure`). The study's `placement` says which role sits on which devices. Exit
    status 2, with what to change, where the placement cannot work. See docs/plan.md.
    """
    from pcqc_gpu.planning.checks import require_fit
    from pcqc_gpu.planning.plan import make_plan, render

    _print(make_plan(study), render, as_json)
    require_fit(study)
