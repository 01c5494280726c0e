"""The command `pcqc`: one subcommand per rule of the workflow, and a few to look around."""

import argparse
import importlib.metadata
import os
import select
import sys

from pcqc.errors import UserError
from pcqc.jobs.cli import load, run_command, study_command
from pcqc.system.processes import report_to_launcher

PLAN = """Prints the memory that each role needs and each device has, consultations and tokens,
GPU-hours, checkpoints and disk, from the settings alone: nothing is loaded, no GPU is asked.
The study's `placement` says which role sits on which devices, its `assumptions` what cannot be
known before.
Exit status 2, with what to change, where the placement cannot work. See docs/plan.md."""


READER_LEFT = 141  # exit status that shells give a program whose reader has gone


def main(arguments: list[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run a subcommand; a `UserError` becomes one line on standard error and exit status 2.

    Args:
        arguments: of the command line; those of this process by default.
        parser: of the program; that of `pcqc` by default.

    It ends quietly where whoever reads its output, such as `head`, has seen enough.
    """
    try:
        try:
            return _run(parser or _parser(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_left():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT


def _reader_left() -> bool:
    """Whether nobody reads standard output any more; other pipes break too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _run(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    parsed = parser.parse_args(arguments)
    try:
        parsed.handler(parsed)
    except Exception as error:
        expected = isinstance(error, UserError)
        if report_to_launcher(error):
            return 2 if expected else 1
        if not expected:
            raise
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    from pcqc.study import ROOT

    # `analysis` and `data_prep` belong to the checkout: names so common are not installed.
    sys.path.insert(0, str(ROOT))
    import analysis.cli
    import data_prep.cli
    import pcqc.jobs.cli

    parser = argparse.ArgumentParser(prog="pcqc", description=__doc__)
    version = f"pcqc {importlib.metadata.version('pcqc')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    pcqc.jobs.cli.register(commands)
    _register_runs(commands)
    _register_studies(commands)
    data_prep.cli.register(commands)
    analysis.cli.register(commands)
    return parser


def _register_runs(commands) -> None:
    """Commands that look at one run."""
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
        help="show N candidates at each state with their utilities",
    )
    consult.add_argument("--seed", type=int, default=0, help="of the random numbers; 0 by default")
    run_command(commands, "explain", _explain, "say whether a run would be made again, and why")
    text = "declare a run still valid after an edit that is known to be harmless"
    accept = run_command(commands, "accept", _accept, text)
    accept.add_argument("--because", required=True, help="why; recorded with the run")


def _register_studies(commands) -> None:
    """Commands that look at a study, or change what is recorded of it."""
    text = "list results of earlier recipes, or delete them"
    clean = study_command(commands, "clean", _clean, text)
    clean.add_argument("--remove", action="store_true", help="delete them; asks first")
    clean.add_argument("--yes", action="store_true", help="do not ask before deleting")
    vary = commands.add_parser(
        "vary", help="record a variation of a method, which the workflow then makes by its name"
    )
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
    vary.add_argument("--runs", default="", help="letters, e.g. A,B (default: the method's first)")
    vary.set_defaults(handler=_vary)
    status = commands.add_parser("status", help="what is done, running, stale, failed or left")
    status.add_argument("study", nargs="?", help="all studies with results where none is named")
    status.set_defaults(handler=_status)
    study_command(commands, "check", _check, "check a study's settings and print them")
    study_command(
        commands, "doctor", _doctor, "check this machine against a study, each line with its remedy"
    )
    plan = study_command(commands, "plan", _plan, "say what a study needs; refuse what cannot fit")
    plan.epilog = PLAN
    plan.add_argument("--json", action="store_true", help="print the plan as JSON")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 100, not {text!r}")
    return int(text)


def _consult(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.consult import consult

    options = ("case", "benchmark", "be_patient", "candidates", "seed")
    given = {name: getattr(arguments, name) for name in options}
    consult(load(arguments), arguments.method, arguments.run, **given)


def _explain(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.explain import explain

    print(explain(load(arguments), arguments.method, arguments.run))


def _accept(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.explain import accept

    study = load(arguments)
    print("\n".join(accept(study, arguments.method, arguments.run, arguments.because)))


def _vary(arguments: argparse.Namespace) -> None:
    from pcqc.study.vary import vary

    runs = [letter.strip() for letter in arguments.runs.split(",") if letter.strip()]
    name, path = vary(
        arguments.study, arguments.method, arguments.changes, name=arguments.name, runs=runs
    )
    print(f"{name} is recorded in {path}; make it with")
    print(f"snakemake --cores all {name} --config study={arguments.study}")


def _status(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.status import status, status_of_all

    print(status(load(arguments)) if arguments.study else status_of_all())


def _clean(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.clean import listing, outdated, remove

    results = outdated(load(arguments))
    print(listing(results))
    if not arguments.remove or not results:
        return
    if not arguments.yes:
        print("delete them for good? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return print("nothing was deleted")
    remove(results)
    print("deleted")


def _doctor(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.doctor import examine

    examine(load(arguments), arguments.study)


def _plan(arguments: argparse.Namespace) -> None:
    import json

    from pcqc.planning.checks import require_fit
    from pcqc.planning.plan import make_plan, render

    study = load(arguments)
    plan = make_plan(study)
    print(json.dumps(plan, indent=1) if arguments.json else render(plan), end="")
    sys.stdout.flush()
    require_fit(study)


def _check(arguments: argparse.Namespace) -> None:
    import json

    print(json.dumps(load(arguments).to_dict(), indent=1))


if __name__ == "__main__":
    sys.exit(main())
