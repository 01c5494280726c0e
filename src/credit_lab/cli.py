"""The command `credit-lab`: the experiments on credit, one subcommand per rule of the workflow."""

import argparse
import sys

import pcqc.cli
from pcqc.jobs.cli import load, run_command, study_command
from pcqc.study import ROOT, load_study

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc.cli.main`."""
    return pcqc.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top = pcqc.cli.Parser(prog="credit-lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "compare each method's expected gradient with the exact one, in a tiny clinic"
    _command(commands, "audit", text, _audit)

    text = "where question credit pays: predict, then train linear policies in small clinics"
    actions = _command(commands, "map", text).add_subparsers(required=True, metavar="ACTION")
    text = "print each method's accuracy by learning rate, in a cell outside the map"
    _command(actions, "pilot", text, _pilot)
    _command(actions, "predict", "write the prediction of every cell, without training", _predict)
    train = _command(actions, "train", "train all methods in one cell", _train)
    train.add_argument("cell", help="name of a cell, as in config/map_predictions.csv")
    _command(actions, "figure", "write the table and the figure of the trained cells", _figure)

    text = "how well each credit ranks questions, at the states of trained policies"
    actions = _command(commands, "quality", text).add_subparsers(required=True, metavar="ACTION")
    run_command(actions, "run", _quality_run, "compare credits at the states of a run's policy")
    study_command(actions, "table", _quality_table, "write the table and the figure of all runs")
    return top


def _command(commands, name: str, text: str, handler=None) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(handler=handler)
    return command


def _audit(_: argparse.Namespace) -> None:
    from credit_lab.audit.table import policies, write_audit
    from credit_lab.audit.tabular import CLINIC
    from credit_lab.jobs import audit
    from pcqc.jobs.run import perform

    job = audit()

    def work() -> None:
        # Of all studies, the paper's alone changes no setting of config/methods.yaml.
        write_audit(load_study("paper").methods, policies(CLINIC), job.path)

    perform(job, work)
    print((job.path / "table.md").read_text(), end="")
    print(f"\n{job.path / 'table.md'}; each number in {job.path / 'table.csv'}")


def _pilot(_: argparse.Namespace) -> None:
    from credit_lab.map.job import pilot_table
    from credit_lab.map.settings import load_map

    print(pilot_table(load_map()), end="")


def _predict(_: argparse.Namespace) -> None:
    from credit_lab.map.job import PREDICTIONS, write_predictions
    from credit_lab.map.settings import load_map

    write_predictions(load_map())
    print(f"predictions: {PREDICTIONS}")


def _train(arguments: argparse.Namespace) -> None:
    from credit_lab.jobs import map_cell
    from credit_lab.map.job import train_cell
    from credit_lab.map.settings import load_map
    from pcqc.jobs.run import perform

    job = map_cell(arguments.cell)
    perform(job, lambda: train_cell(load_map(), arguments.cell, job.path))
    print(job.path)


def _figure(_: argparse.Namespace) -> None:
    from credit_lab.jobs import map_figure
    from credit_lab.map.job import read_predictions
    from credit_lab.map.results import write_results
    from pcqc.jobs.run import perform
    from pcqc.results.recipe import input_paths

    job = map_figure(list(read_predictions()))
    perform(job, lambda: write_results(input_paths(job).values(), job.path))
    print(job.path)


def _quality_run(arguments: argparse.Namespace) -> None:
    from credit_lab.jobs import quality
    from credit_lab.quality.job import run
    from pcqc.jobs.run import perform, task_of

    study = load(arguments)
    job = quality(study, arguments.method, arguments.run)
    perform(job, lambda: run(task_of(study, job)))
    print(job.path)


def _quality_table(arguments: argparse.Namespace) -> None:
    from credit_lab.jobs import quality_table
    from credit_lab.quality.results import write_results
    from pcqc.jobs.run import perform

    study = load(arguments)
    job = quality_table(study)
    perform(job, lambda: write_results(study, job.path))
    print(job.path)
