"""The command `pcqc`: one subcommand per rule of the workflow, and a few to look around."""

import argparse
import contextlib
import importlib.metadata
import os
import select
import sys

from pcqc.errors import UserError
from pcqc.processes import report_to_launcher, shutdown

PLAN = """Prints memory needed and there per role and device, consultations and tokens, GPU-hours,
checkpoints and disk, from the settings alone: nothing is loaded, no GPU is asked. The study's
`placement` says which role sits on which devices, its `assumptions` what cannot be known before.
Exit status 2, with what to change, where the placement cannot work. See docs/plan.md."""


READER_LEFT = 141  # what a shell says of a program that a closed pipe ended


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; a `UserError` becomes one line on standard error and exit status 2.

    It ends quietly where whoever reads its output, such as `head`, has seen enough.
    """
    try:
        try:
            return _run(arguments)
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


def _run(arguments: list[str] | None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        parsed.handler(parsed)
    except Exception as error:
        expected = isinstance(error, UserError)
        if report_to_launcher(error):
            return 2 if expected else 1
        if not expected:
            raise
        print(f"pcqc: error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    from pcqc.config import ROOT

    # `analysis` and `data_prep` belong to the checkout: names so common are not installed.
    sys.path.insert(0, str(ROOT))
    import analysis.cli
    import data_prep.cli
    import pcqc.map.cli
    import pcqc.tracking.cli

    parser = argparse.ArgumentParser(prog="pcqc", description=__doc__)
    version = f"pcqc {importlib.metadata.version('pcqc')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, handler, text in (
        ("clinic", _clinic, "draw the synthetic clinic: cases, benchmarks, SFT conversations"),
        ("pretrain", _pretrain, "train the clinic's base model from scratch"),
        ("sft", _sft, "fine-tune the base model into the actor and the patient"),
    ):
        _study_command(commands, name, handler, text)
    prepare = _study_command(
        commands, "prepare", _prepare, "make converted cases the training and evaluation data"
    )
    prepare.add_argument("--only", metavar="SET", help="`train`, a benchmark, or `manifest`")
    models = _study_command(commands, "models", _models, "put a study's pretrained models in place")
    models.add_argument(
        "--download", action="store_true", help="fetch those that are missing from Hugging Face"
    )
    for name, handler, text in (
        ("train", _train, "train one run of a method, resuming it where it was stopped"),
        ("select", _select, "choose a run's checkpoint on the development benchmark"),
        ("evaluate", _evaluate, "evaluate a run's chosen checkpoint on every benchmark"),
        ("continuation", _continuation, "fix candidate questions and continue from each of them"),
        ("grounding", _grounding, "judge the continuation study's answers against the facts"),
        ("question-credits", _question_credits, "compare credits at the states of a run's policy"),
        ("consult", _consult, "watch a run's doctor on a case, or be its patient, in the terminal"),
        ("explain", _explain, "say whether a run would be made again, and why"),
        ("accept", _accept, "declare a run still valid after an edit that is known to be harmless"),
    ):
        command = _study_command(commands, name, handler, text)
        command.add_argument("method", help="name of a method in config/methods.yaml")
        command.add_argument("run", help="letter of the run")
        if name == "select":
            command.add_argument("--benchmark", help="the development benchmark by default")
        if name == "consult":
            command.add_argument("--case", metavar="ID", help="the benchmark's first by default")
            command.add_argument("--benchmark", help="the development benchmark by default")
            command.add_argument(
                "--be-patient", action="store_true", help="answer the doctor's questions yourself"
            )
            command.add_argument(
                "--candidates",
                type=_count,
                default=1,
                metavar="N",
                help="show N candidates at each state with their utilities",
            )
            command.add_argument("--seed", type=int, default=0, help="another one, another course")
        if name == "accept":
            command.add_argument("--because", required=True, help="why; recorded with the run")
    kept = _study_command(commands, "superseded", _superseded, "list results that were set aside")
    kept.add_argument(
        "--remove", nargs="+", metavar="NAME", help="delete these, or `all`; says what it frees"
    )
    kept.add_argument("--yes", action="store_true", help="do not ask before deleting")
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
    _study_command(commands, "check", _check, "check a study's settings and print them")
    _study_command(
        commands, "doctor", _doctor, "check this machine against a study, each line with its remedy"
    )
    audit = "compare each method's expected gradient with the exact one, in a tiny clinic"
    commands.add_parser("audit", help=audit, description=audit).set_defaults(handler=_audit)
    plan = _study_command(commands, "plan", _plan, "say what a study needs; refuse what cannot fit")
    plan.epilog = PLAN
    plan.add_argument("--json", action="store_true", help="print the plan as JSON")
    pcqc.map.cli.register(commands)
    data_prep.cli.register(commands)
    pcqc.tracking.cli.register(commands)
    analysis.cli.register(commands)
    return parser


def _study_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("study", help="name of a study in config/studies/, or a path")
    command.set_defaults(handler=handler)
    return command


def _load(arguments: argparse.Namespace):
    from pcqc.config import load_study

    return load_study(arguments.study)


def _clinic(arguments: argparse.Namespace) -> None:
    from pcqc.clinic.build import build_clinic

    build_clinic(_load(arguments))


def _alone(study, *job: str):
    """Keep a second process from the files of the same job, in a `with` statement.

    Jobs outlive a workflow that was killed without them.
    """
    from pcqc.files import hold
    from pcqc.paths import Paths

    # Nothing was made yet that the job could start from; it says so itself.
    if not study.results.is_dir():
        return contextlib.nullcontext()
    name = " ".join(job)
    # `pcqc status` may look at the lock just now.
    return hold(Paths.of(study).lock(name), f"`pcqc {name}`", patience=1.0)


def _pretrain(arguments: argparse.Namespace) -> None:
    from pcqc.clinic.pretrain import pretrain

    study = _load(arguments)
    with _alone(study, "pretrain"):
        pretrain(study)


def _models(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.pretrained import run_models

    study = _load(arguments)
    with _alone(study, "models"):
        run_models(study, arguments.download)


def _prepare(arguments: argparse.Namespace) -> None:
    from data_prep.prepare import prepare

    for note in prepare(_load(arguments), arguments.only):
        print(f"note: {note}")


def _learn(study, arguments: list[str], job) -> None:
    """A job that learns, in as many processes as the study's learner has devices.

    Args:
        study: the study.
        arguments: of `pcqc`, as those processes are given them.
        job: called with the processes of which this is one.
    """
    from pcqc.planning.fit import require_fit

    # Here and not in the job: a plan is no part of what the job's result is made from.
    require_fit(study)
    from pcqc.jobs.launch import join_job, launch, processes_wanted

    if (count := processes_wanted(study)) > 1:
        return launch(arguments, count)
    processes = join_job(study)
    names = [arguments[0], *arguments[2:]]
    with _alone(study, *names) if processes.is_main else contextlib.nullcontext():
        job(processes)
    shutdown(processes)


def _sft(arguments: argparse.Namespace) -> None:
    study = _load(arguments)

    def job(processes) -> None:
        from pcqc.jobs.sft import run_sft

        run_sft(study, processes)

    _learn(study, ["sft", arguments.study], job)


def _train(arguments: argparse.Namespace) -> None:
    study, method, run = _load(arguments), arguments.method, arguments.run
    study.require(method, run)

    def job(processes) -> None:
        from pcqc.jobs.rl_loop import run_training

        judged = None
        if study.synthetic and processes.is_main:
            from pcqc.clinic.quality import validation_quality

            judged = validation_quality(study)
        run_training(study, method, run, processes, judged)

    _learn(study, ["train", arguments.study, method, run], job)


def _select(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.select import run_selection

    run_selection(_load(arguments), arguments.method, arguments.run, arguments.benchmark)


def _evaluate(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.evaluate import run_evaluation

    study, method, run = _load(arguments), arguments.method, arguments.run
    with _alone(study, "evaluate", method, run):
        run_evaluation(study, method, run)


def _continuation(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.continuation import run_continuation

    study, method, run = _load(arguments), arguments.method, arguments.run
    with _alone(study, "continuation", method, run):
        run_continuation(study, method, run)


def _grounding(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.grounding import run_grounding

    study, judges = _load(arguments), None
    if study.synthetic:
        from pcqc.clinic.judge import clinic_judge

        judges = {"rules": clinic_judge(study)}
    with _alone(study, "grounding", arguments.method, arguments.run):
        run_grounding(study, arguments.method, arguments.run, judges)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 100, not {text!r}")
    return int(text)


def _question_credits(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.credit_quality import run_credit_quality

    study = _load(arguments)
    with _alone(study, "credit_quality", arguments.method, arguments.run):
        run_credit_quality(study, arguments.method, arguments.run)


def _consult(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.consult import consult

    options = ("case", "benchmark", "be_patient", "candidates", "seed")
    given = {name: getattr(arguments, name) for name in options}
    consult(_load(arguments), arguments.method, arguments.run, **given)


def _explain(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.explain import explain

    print(explain(_load(arguments), arguments.method, arguments.run))


def _accept(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.explain import accept

    study = _load(arguments)
    print("\n".join(accept(study, arguments.method, arguments.run, arguments.because)))


def _vary(arguments: argparse.Namespace) -> None:
    from pcqc.config.vary import vary

    runs = [letter.strip() for letter in arguments.runs.split(",") if letter.strip()]
    name, path = vary(
        arguments.study, arguments.method, arguments.changes, name=arguments.name, runs=runs
    )
    print(f"{name} is recorded in {path}; make it with")
    print(f"snakemake --cores all {name} --config study={arguments.study}")


def _status(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.status import status, status_of_all

    print(status(_load(arguments)) if arguments.study else status_of_all())


def _superseded(arguments: argparse.Namespace) -> None:
    from pcqc.superseded import chosen, listing, remove, superseded

    study = _load(arguments)
    entries = superseded(study.results)
    if not arguments.remove:
        return print(listing(entries))
    entries = chosen(entries, arguments.remove)
    print(listing(entries))
    if not arguments.yes:
        print("delete them for good? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return print("nothing was deleted")
    remove(entries)
    print("deleted")


def _doctor(arguments: argparse.Namespace) -> None:
    from pcqc.doctor.examine import examine

    examine(_load(arguments), arguments.study)


def _audit(arguments: argparse.Namespace) -> None:
    from pcqc.audit.table import FOLDER, write_audit
    from pcqc.config import load_study

    # Of all studies, the paper's alone changes no setting of config/methods.yaml that counts here.
    print(write_audit(load_study("paper").methods), end="")
    print(f"\n{FOLDER / 'table.md'}; each number in {FOLDER / 'table.csv'}")


def _plan(arguments: argparse.Namespace) -> None:
    import json

    from pcqc.planning.fit import require_fit
    from pcqc.planning.plan import make_plan
    from pcqc.planning.table import render

    study = _load(arguments)
    plan = make_plan(study)
    print(json.dumps(plan, indent=1) if arguments.json else render(plan), end="")
    sys.stdout.flush()
    require_fit(study)


def _check(arguments: argparse.Namespace) -> None:
    import json

    print(json.dumps(_load(arguments).to_dict(), indent=1))


if __name__ == "__main__":
    sys.exit(main())
