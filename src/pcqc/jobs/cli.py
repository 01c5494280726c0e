"""The workflow's jobs as commands: `pcqc train` and the others that its rules call."""

import argparse
import contextlib

from pcqc.system.processes import shutdown


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add the commands; each sets `handler`, called with the arguments."""
    for name, handler, text in (
        ("clinic", _clinic, "draw the synthetic clinic: cases, benchmarks, SFT conversations"),
        ("pretrain", _pretrain, "train the clinic's base model from scratch"),
        ("sft", _sft, "fine-tune the base model into the actor and the patient"),
    ):
        study_command(subparsers, name, handler, text)
    models = study_command(
        subparsers, "models", _models, "put a study's pretrained models in place"
    )
    models.add_argument(
        "--download", action="store_true", help="fetch those that are missing from Hugging Face"
    )
    for name, handler, text in (
        ("train", _train, "train one run of a method, resuming it where it was stopped"),
        ("select", _select, "choose a run's checkpoint on the development benchmark"),
        ("evaluate", _evaluate, "evaluate a run's chosen checkpoint on every benchmark"),
        ("continuation", _continuation, "fix candidate questions and continue from each of them"),
        ("grounding", _grounding, "judge the continuation study's answers against the facts"),
    ):
        command = run_command(subparsers, name, handler, text)
        if name == "select":
            command.add_argument("--benchmark", help="the development benchmark by default")


def study_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    """A command that is given a study."""
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("study", help="name of a study in config/studies/, or a path")
    command.set_defaults(handler=handler)
    return command


def run_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    """A command that is given a run of a method."""
    command = study_command(commands, name, handler, text)
    command.add_argument("method", help="name of a method in config/methods.yaml")
    command.add_argument("run", help="letter of the run")
    return command


def load(arguments: argparse.Namespace):
    """The study that a command was given."""
    from pcqc.study import load_study

    return load_study(arguments.study)


def _clinic(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.clinic import run_clinic

    run_clinic(load(arguments))


def _alone(study, *job: str):
    """Keep a second process from the files of the same job, in a `with` statement.

    Jobs outlive a workflow that was killed without them.
    """
    from pcqc.study.paths import Paths
    from pcqc.system.files import hold

    # Nothing was made yet that the job could start from; it says so itself.
    if not study.results.is_dir():
        return contextlib.nullcontext()
    name = " ".join(job)
    # `pcqc status` may look at the lock just now.
    return hold(Paths.of(study).lock(name), f"`pcqc {name}`", patience=1.0)


def _pretrain(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.pretrain import run_pretrain

    study = load(arguments)
    with _alone(study, "pretrain"):
        run_pretrain(study)


def _models(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.pretrained import run_models

    study = load(arguments)
    with _alone(study, "models"):
        run_models(study, arguments.download)


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
    study = load(arguments)

    def job(processes) -> None:
        from pcqc.jobs.sft import run_sft

        run_sft(study, processes)

    _learn(study, ["sft", arguments.study], job)


def _train(arguments: argparse.Namespace) -> None:
    study, method, run = load(arguments), arguments.method, arguments.run
    study.require(method, run)

    def job(processes) -> None:
        from pcqc.jobs.rl_loop import run_training

        judged = world = None
        if study.synthetic:
            from pcqc.jobs.clinic import known_world, validation_quality

            judged = validation_quality(study) if processes.is_main else None
            world = known_world(study) if "world" in study.method(method).needs else None
        run_training(study, method, run, processes, judged, world)

    _learn(study, ["train", arguments.study, method, run], job)


def _select(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.select import run_selection

    run_selection(load(arguments), arguments.method, arguments.run, arguments.benchmark)


def _evaluate(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.evaluate import run_evaluation

    study, method, run = load(arguments), arguments.method, arguments.run
    with _alone(study, "evaluate", method, run):
        run_evaluation(study, method, run)


def _continuation(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.continuation import run_continuation

    study, method, run = load(arguments), arguments.method, arguments.run
    with _alone(study, "continuation", method, run):
        run_continuation(study, method, run)


def _grounding(arguments: argparse.Namespace) -> None:
    from pcqc.jobs.grounding import run_grounding

    study, judges = load(arguments), None
    if study.synthetic:
        from pcqc.jobs.clinic import clinic_judge

        judges = {"rules": clinic_judge(study)}
    with _alone(study, "grounding", arguments.method, arguments.run):
        run_grounding(study, arguments.method, arguments.run, judges)
