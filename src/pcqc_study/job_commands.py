"""The workflow's jobs as commands: `pcqc train` and the others that its rules call."""

import argparse
import os

from pcqc_base.system.processes import leaving

HELP = {
    "file": "name of the file: train, sft or a benchmark",
    "set": "`train` or a benchmark; of the clinic also `world` and `sft`",
    "method": "name of a method in config/methods.yaml",
    "run": "letter of the run",
}


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add the commands; each sets `handler`, called with the arguments."""
    from pcqc_study.kinds import KINDS

    for name, kind in KINDS.items():
        command = study_command(subparsers, name, _run, kind.help)
        for argument in kind.arguments:
            command.add_argument(argument, help=HELP[argument])
        command.add_argument("--fingerprint", help="refuse to run with another than this one")
        command.set_defaults(kind=name, names=kind.arguments)

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
    from pcqc_study.kinds import KINDS
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
        run_job(study, arguments.kind, *values, fingerprint=arguments.fingerprint)
        return
    from pcqc_gpu.launch import join_job, launch, processes_wanted
    from pcqc_gpu.planning.checks import require_fit

    require_fit(study)
    if (count := processes_wanted(study)) > 1:
        fingerprint = ["--fingerprint", arguments.fingerprint] if arguments.fingerprint else []
        return launch([arguments.kind, arguments.study, *values, *fingerprint], count)
    processes = join_job(study)
    with leaving(processes):
        fingerprint = arguments.fingerprint
        run_job(study, arguments.kind, *values, fingerprint=fingerprint, processes=processes)
