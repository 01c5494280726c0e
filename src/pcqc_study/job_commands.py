"""The workflow's jobs as commands: `pcqc train` and the others that its rules call."""

import argparse
import os

from pcqc.system.processes import shutdown

ABOUT = {
    "clinic": "draw the synthetic clinic: cases, benchmarks, SFT conversations",
    "convert": "convert one of a study's published files to cases",
    "overlap": "audit what training and evaluation cases share",
    "instruction": "take the actor's system message from the published cases",
    "prepare": "select the cases of `train` or of a benchmark",
    "base": "train the clinic's base model, or put pretrained models in place",
    "sft": "fine-tune the base model into the actor and the patient",
    "train": "train one run of a method, resuming it where it was stopped",
    "select": "choose a run's checkpoint on the development benchmark",
    "evaluate": "evaluate a run's chosen checkpoint on every benchmark",
    "continuation": "fix candidate questions and continue from each of them",
    "grounding": "judge the continuation study's answers against the facts",
    "lost_points": "split what a run's doctors lose into asking, remembering, concluding, stopping",
    "lost_points_table": "write the table and the figure of lost points",
    "mirror": "write a method's finished runs to MLflow",
    "collect": "fetch all runs from MLflow, as the analysis reads them",
    "report": "write tables, figures, transcripts and the report",
    "peers": "write the table of published credits",
    "publish": "put the report into MLflow",
}
HELP = {
    "file": "name of the file: train, sft or a benchmark",
    "set": "`train` or a benchmark",
    "method": "name of a method in config/methods.yaml",
    "run": "letter of the run",
}


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add the commands; each sets `handler`, called with the arguments."""
    from pcqc_study.graph import KINDS

    for kind, text in ABOUT.items():
        command = study_command(subparsers, kind, _run, text)
        for name in KINDS[kind].arguments:
            command.add_argument(name, help=HELP[name])
        command.add_argument("--recipe", help="refuse to run with another recipe than this one")
        command.set_defaults(kind=kind, names=KINDS[kind].arguments)

    subparsers.choices["base"].add_argument(
        "--download", action="store_true", help="fetch what is missing from Hugging Face"
    )
    subparsers.choices["collect"].add_argument(
        "--add", action="store_true", help="join this machine's runs to those collected earlier"
    )
    subparsers.choices["mirror"].add_argument(
        "--runs", metavar="LETTERS", help="these runs alone, e.g. A,B, of a study made in parts"
    )


def plain_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    """A command; `handler` is called with the arguments."""
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(handler=handler)
    return command


def study_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    """A command that is given a study."""
    command = plain_command(commands, name, handler, text)
    command.add_argument("study", help="name of a study in config/studies/, or a path")
    return command


def run_command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    """A command that is given a run of a method."""
    command = study_command(commands, name, handler, text)
    for argument in ("method", "run"):
        command.add_argument(argument, help=HELP[argument])
    return command


def load(arguments: argparse.Namespace):
    """The study that a command was given."""
    from pcqc_study.settings import load_study

    return load_study(arguments.study)


def _run(arguments: argparse.Namespace) -> None:
    # Before torch is imported: threads that wait must not keep a core from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    from pcqc_study.graph import KINDS
    from pcqc_study.run_job import mirror_some, run_job

    study = load(arguments)
    values = [getattr(arguments, name) for name in arguments.names]
    if getattr(arguments, "download", False):
        from pcqc.models.pretrained import download

        for source in study.pretrained.values():
            if source.revision:
                download(source)
    if getattr(arguments, "add", False):
        from pcqc_study.mlflow_mirror.collect import add

        return print(add(study))
    if letters := getattr(arguments, "runs", None):
        return mirror_some(study, values[0], letters.split(","))
    if not KINDS[arguments.kind].shared_out:
        run_job(study, arguments.kind, *values, recipe=arguments.recipe)
        return
    from pcqc_gpu.launch import join_job, launch, processes_wanted
    from pcqc_gpu.planning.checks import require_fit

    require_fit(study)
    if (count := processes_wanted(study)) > 1:
        recipe = ["--recipe", arguments.recipe] if arguments.recipe else []
        return launch([arguments.kind, arguments.study, *values, *recipe], count)
    processes = join_job(study)
    run_job(study, arguments.kind, *values, recipe=arguments.recipe, processes=processes)
    shutdown(processes)
