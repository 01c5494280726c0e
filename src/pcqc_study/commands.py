"""Commands of `pcqc` that look at a run or a study, or change what is recorded of it."""

import argparse
import json
import sys
from pathlib import Path

from pcqc_base.errors import UserError
from pcqc_base.system.terminal import show
from pcqc_study.job_commands import load, run_command, study_command

PLAN = """Prints disk, the memory that each role needs and each device has, from the settings
alone: nothing is loaded, no GPU is asked. Hours are those of methods whose updates were measured
(`pcqc doctor --measure`). The study's `placement` says which role sits on which devices.
Exit status 2, with what to change, where the placement cannot work. See docs/plan.md."""
SIDE = "STUDY/METHOD/RUN, such as clinic/pcqc/A; or a Parquet file of predictions"


def register(commands) -> None:
    """Add the commands; each sets `handler`, called with the arguments."""
    _register_runs(commands)
    _register_changes(commands)
    _register_looks(commands)


def _register_runs(commands) -> None:
    text = "watch a run's doctor on a case, or be its patient, in the terminal"
    consult = run_command(commands, "consult", _consult, text)
    consult.add_argument("--case", metavar="ID", help="the benchmark's first by default")
    consult.add_argument("--benchmark", help="the development benchmark by default")
    consult.add_argument(
        "--be-patient", action="store_true", help="answer the doctor's questions yourself"
    )
    consult.add_argument(
        "--candidates",
        type=_count,
        default=1,
        metavar="N",
        help="show N candidates at each state with their utilities; by default on a case whose "
        "first ones differ",
    )
    consult.add_argument("--seed", type=int, default=0, help="of the random numbers; 0 by default")
    text = "say what a run was made from, whether it would be made again, and why"
    _with_json(run_command(commands, "explain", _explain, text))
    text = "say what differs between two runs: settings, source, and accuracy case by case"
    diff = commands.add_parser("diff", help=text, description=text)
    diff.add_argument("a", metavar="A", help=SIDE)
    diff.add_argument("b", metavar="B", help="likewise; STUDY/METHOD alone is its first run")
    diff.set_defaults(handler=_diff)
    _with_json(diff)
    text = "declare a study, or a run of it, still valid after an edit that is known to be harmless"
    accept = study_command(commands, "accept", _accept, text)
    accept.add_argument("method", nargs="?", default="", help="with a run: of this run alone")
    accept.add_argument("run", nargs="?", default="", help="letter of the run")
    accept.add_argument("--because", required=True, help="why; recorded with the results")


def _register_changes(commands) -> None:
    """What deletes, restores or varies."""
    text = "list results of earlier fingerprints, or delete them"
    clean = study_command(commands, "clean", _clean, text)
    clean.add_argument("--remove", action="store_true", help="delete them; asks first")
    clean.add_argument("--yes", action="store_true", help="do not ask before deleting")
    text = "unpack a study's archive or bundle among the results"
    restored = study_command(commands, "restore", _restore, text)
    restored.add_argument(
        "--from", dest="folder", metavar="FOLDER", help="of a bundle; results/archive by default"
    )
    text = "record a variation of a method, which the workflow then makes by its name"
    vary = commands.add_parser("vary", help=text, description=text)
    vary.add_argument("method", help="a method of the study")
    vary.add_argument(
        "--set",
        dest="changes",
        action="append",
        required=True,
        metavar="SETTING=VALUE",
        help="such as beta=0.5, tree.budget=32 or rl.learning_rate=5e-4; may be repeated",
    )
    vary.add_argument("--study", default="clinic", help="name of a study, or a path")
    vary.add_argument("--name", help="of the variation; made of method and settings by default")
    vary.add_argument(
        "--runs",
        default="",
        help="letters, e.g. A,B (default: the method's first); again with others, it adds them",
    )
    vary.set_defaults(handler=_vary)


def _register_looks(commands) -> None:
    """What looks at a study and at the machine."""
    text = "what is done, running, stale, failed or left"
    status = commands.add_parser("status", help=text, description=text)
    status.add_argument("study", nargs="?", help="all studies with results where none is named")
    status.set_defaults(handler=_status)
    _with_json(status)
    text = "one screen, renewed while the workflow runs"
    status.add_argument("--watch", action="store_true", help=text)
    text = "send MLflow the curves of running trainings until the workflow has ended"
    study_command(commands, "follow", _follow, text)
    study_command(commands, "check", _check, "check a study's settings and print them")
    text = "check this machine against a study, each line with its remedy"
    doctor = study_command(commands, "doctor", _doctor, text)
    instead = doctor.add_mutually_exclusive_group()  # a measurement takes the place of the trial
    instead.add_argument(
        "--measure",
        type=_count,
        nargs="?",
        const=3,
        metavar="UPDATES",
        help="measure updates, from which `pcqc plan` has its hours (default: 3)",
    )
    text = "whose updates to measure; by default one in which every role works"
    doctor.add_argument("--method", default="", help=text)
    text = (
        "also hold consultations on N cases, and show what doctor, patient and scorer read and say"
    )
    instead.add_argument("--cases", type=_count, default=0, metavar="N", help=text)
    plan = study_command(commands, "plan", _plan, "say what a study needs; refuse what cannot fit")
    plan.epilog = PLAN
    _with_json(plan)


def _with_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of sentences")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 100, not {text!r}")
    return int(text)


def _shown(arguments: argparse.Namespace, data, text) -> None:
    """Print data as JSON, or as the text that a function makes of them."""
    show(json.dumps(data, indent=1) if arguments.json else text(data))


def _consult(arguments: argparse.Namespace) -> None:
    from pcqc_study.consult import consult

    options = ("case", "benchmark", "be_patient", "candidates", "seed")
    given = {name: getattr(arguments, name) for name in options}
    consult(load(arguments), arguments.method, arguments.run, **given)


def _explain(arguments: argparse.Namespace) -> None:
    from pcqc_study.explain import explain, explained

    _shown(arguments, explain(load(arguments), arguments.method, arguments.run), explained)


def _diff(arguments: argparse.Namespace) -> None:
    from pcqc_study.diff import diff, told

    _shown(arguments, diff(arguments.a, arguments.b), told)


def _accept(arguments: argparse.Namespace) -> None:
    from pcqc_study.explain import accept

    study = load(arguments)
    of_run = (arguments.method, arguments.run)
    show("\n".join(accept(study, *of_run, arguments.because)))


def _vary(arguments: argparse.Namespace) -> None:
    from pcqc_study.settings.vary import vary

    runs = [letter.strip() for letter in arguments.runs.split(",") if letter.strip()]
    name, path = vary(
        arguments.study, arguments.method, arguments.changes, name=arguments.name, runs=runs
    )
    show(f"{name} is recorded in {path}; make it with")
    show(f"snakemake --cores all {name} --config study={arguments.study}")


def _status(arguments: argparse.Namespace) -> None:
    from pcqc_study.status import status, status_of_all, told

    if arguments.watch:
        from pcqc_study.watch import watch

        if not arguments.study:
            raise UserError("status --watch: name the study to watch")
        return watch(load(arguments))
    if arguments.study:
        return _shown(arguments, status(load(arguments)), told)
    _shown(arguments, status_of_all(), lambda lines: "\n".join(lines.values()))


def _follow(arguments: argparse.Namespace) -> None:
    from pcqc_study.mlflow_mirror.write_curves import follow

    follow(load(arguments))


def _clean(arguments: argparse.Namespace) -> None:
    from pcqc_study.clean import listing, outdated, remove

    results = outdated(load(arguments))
    show(listing(results))
    if not arguments.remove or not results:
        return
    if not arguments.yes:
        print("delete them for good? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return show("nothing was deleted")
    remove(results)
    show("deleted")


def _restore(arguments: argparse.Namespace) -> None:
    """Unpack the archives of a study and of its replicates; draw the cases of a clinic."""
    from analysis import archive, bundle
    from pcqc_study.graph import Jobs
    from pcqc_study.run_job import run_job
    from pcqc_study.settings.replicates import replicates

    study = load(arguments)
    for folder in bundle.restore(study, Path(arguments.folder or archive.ARCHIVES)):
        show(f"{folder}: restored")
    for member in (study, *replicates(study)):
        for job in Jobs(member).shared() if member.synthetic else ():
            if job.kind == "clinic":
                show(f"{run_job(member, *job.name.split()).path}: drawn")
        _finish_restored(member)
    name = study.name
    show(f"now `pcqc answer {name}`, `pcqc tables {name}`, `pcqc figures {name}` work; and")
    show(f"`pcqc report {name}` makes the report")


def _finish_restored(study) -> None:
    """Mark what a bundle brought whole as made, and write its runs to MLflow's store here."""
    from pcqc_base.system.manifest import mark
    from pcqc_study.graph import Jobs
    from pcqc_study.run_job import run_job

    for job in Jobs(study).all():
        if job.kind in ("mirror", "publish"):
            if all(other.manifest.exists() for other in job.needs):
                run_job(study, job.kind, *job.arguments)
                show(f"{job.path}: in MLflow")
        elif job.manifest.exists():
            mark(job)


def _doctor(arguments: argparse.Namespace) -> None:
    from pcqc_gpu.doctor import examine

    study, given = load(arguments), arguments
    if given.method and not given.measure:
        raise UserError("--method goes with --measure; add it")
    examine(study, given.study, given.measure, given.method, given.cases)


def _plan(arguments: argparse.Namespace) -> None:
    from pcqc_gpu.planning.checks import require_fit
    from pcqc_gpu.planning.plan import make_plan, render

    study = load(arguments)
    _shown(arguments, make_plan(study), render)
    require_fit(study)


def _check(arguments: argparse.Namespace) -> None:
    show(json.dumps(load(arguments).to_dict(), indent=1))
