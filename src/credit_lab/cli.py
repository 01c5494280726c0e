"""The command `credit-lab`: the map, one subcommand per rule of the workflow."""

import argparse
import sys

import pcqc.cli
from pcqc.study import ROOT

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc.cli.main`."""
    return pcqc.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top = pcqc.cli.Parser(prog="credit-lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "where question credit pays: predict, then train linear policies in small clinics"
    actions = _command(commands, "map", text).add_subparsers(required=True, metavar="ACTION")
    text = "print each method's accuracy by learning rate, in a cell outside the map"
    _command(actions, "pilot", text, _pilot)
    _command(actions, "predict", "write the prediction of every cell, without training", _predict)
    train = _command(actions, "train", "train all methods in one cell", _train)
    train.add_argument("cell", help="name of a cell, as in config/map_predictions.csv")
    _command(actions, "figure", "write the table and the figure of the trained cells", _figure)
    return top


def _command(commands, name: str, text: str, handler=None) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(handler=handler)
    return command


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
