"""The command `credit-lab`: the experiments on credit, one subcommand per rule of the workflow."""

import argparse
import sys

import pcqc.cli
from pcqc.jobs.cli import load, run_command, study_command
from pcqc.study import ROOT

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc.cli.main`."""
    return pcqc.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top = argparse.ArgumentParser(prog="credit-lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "compare each method's expected gradient with the exact one, in a tiny clinic"
    commands.add_parser("audit", help=text, description=text).set_defaults(handler=_audit)
    text = "where question credit pays: predict, then train linear policies in small clinics"
    of_map = commands.add_parser("map", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    for name, handler, text in (
        ("pilot", _pilot, "print each method's accuracy by learning rate, on a cell of no map"),
        ("predict", _predict, "write what is predicted of every cell, without training"),
        ("train", _train, "train all methods in one cell"),
        ("figure", _figure, "write the table and the figure from the trained cells"),
    ):
        action = of_map.add_parser(name, help=text, description=text)
        action.set_defaults(handler=handler)
        if name == "train":
            action.add_argument("cell", help="name of a cell, as in config/map_predictions.csv")
    text = "how well each credit ranks questions, at the states of trained policies"
    of_quality = commands.add_parser("quality", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    run_command(of_quality, "run", _quality_run, "compare credits at the states of a run's policy")
    study_command(of_quality, "table", _quality_table, "write the table and figure of all runs")
    return top


def _audit(_: argparse.Namespace) -> None:
    from credit_lab.audit.table import write_audit
    from credit_lab.jobs import audit
    from pcqc.jobs.run import perform
    from pcqc.study import load_study

    job = audit()

    def work() -> None:
        # Of all studies, the paper's alone changes no setting of config/methods.yaml.
        write_audit(load_study("paper").methods, job.path)

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
    from pcqc.study.recipe import input_paths

    job = map_figure(list(read_predictions()))
    perform(job, lambda: write_results(input_paths(job), job.path))
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
