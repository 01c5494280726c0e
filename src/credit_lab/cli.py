"""The command `credit-lab`: the map, one subcommand per rule of the workflow."""

import argparse
import sys

import pcqc.cli
from pcqc.settings import ROOT

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc.cli.main`."""
    return pcqc.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top = pcqc.cli.Parser(prog="credit-lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "where question credit pays: linear policies in small clinics, and a rule from them"
    actions = _command(commands, "map", text).add_subparsers(required=True, metavar="ACTION")
    text = "print each method's accuracy by learning rate, in the first fitting cells"
    _command(actions, "pilot", text, _pilot)
    _command(actions, "measure", "write the quantities of every cell, before training", _measure)
    train = _command(actions, "train", "train all methods in a block of cells", _train)
    train.add_argument("block", help="name of a block, as `snakemake -n map` prints it")
    _command(actions, "fit", "fit the rule on the trained fitting cells", _fit)
    _command(actions, "figure", "write the tables and the figure of the trained cells", _figure)
    text = "the map's rule tried on transformers, in eight cells of the study `clinic`"
    actions = _command(commands, "cells", text).add_subparsers(required=True, metavar="ACTION")
    _command(actions, "measure", "write the quantities of every cell, before training", _before)
    _command(actions, "run", "make what is missing of all cells, then the table", _run_cells)
    _command(actions, "table", "write the table of what is made so far", _cells_table)
    text = "measure a study before training, and predict by the rule whether question credit helps"
    helps = _command(commands, "helps", text, _helps)
    helps.add_argument("study", help="name of a study in config/studies/, or a path")
    helps.add_argument(
        "--cases", type=int, default=48, metavar="N", help="of the training, at most (default: 48)"
    )
    return top


def _command(commands, name: str, text: str, handler=None) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(handler=handler)
    return command


def _pilot(_: argparse.Namespace) -> None:
    from credit_lab.map.before import pilot_table
    from credit_lab.map.settings import load_map

    print(pilot_table(load_map()), end="")


def _measure(_: argparse.Namespace) -> None:
    from credit_lab.map.before import write_cells
    from credit_lab.map.settings import CELLS, load_map

    write_cells(load_map())
    print(f"quantities: {CELLS}")


def _train(arguments: argparse.Namespace) -> None:
    from credit_lab.jobs import map_block
    from credit_lab.map.job import train_block
    from credit_lab.map.settings import load_map
    from pcqc.errors import UserError
    from pcqc.jobs.run_job import perform
    from pcqc.settings.yaml_reader import nearest

    settings, name = load_map(), arguments.block
    if name not in settings.blocks:
        raise UserError(f"no block '{name}'{nearest(name, settings.blocks)}")
    job = map_block(name)
    perform(job, lambda: train_block(settings, name, job.path))
    print(job.path)


def _fit(_: argparse.Namespace) -> None:
    from credit_lab.jobs import map_block
    from credit_lab.map.results import write_rule
    from credit_lab.map.settings import FITTING, RULE, load_map

    write_rule([map_block(b).path for b in load_map().block_names if b.startswith(FITTING)])
    print(f"rule: {RULE}")


def _figure(_: argparse.Namespace) -> None:
    from credit_lab.jobs import map_figure
    from credit_lab.map.results import write_results
    from pcqc.jobs.run_job import perform

    job = map_figure()
    perform(job, lambda: write_results([block.path for block in job.needs], job.path))
    print(job.path)


def _helps(arguments: argparse.Namespace) -> None:
    from credit_lab.map.helps import told
    from pcqc.settings import load_study

    print(told(load_study(arguments.study), arguments.study, arguments.cases), end="")


def _before(_: argparse.Namespace) -> None:
    from credit_lab.map.cells import MEASURED, write_measured

    write_measured()
    print(f"quantities: {MEASURED}")


def _run_cells(arguments: argparse.Namespace) -> None:
    from credit_lab.map.cells import run

    run()
    _cells_table(arguments)


def _cells_table(_: argparse.Namespace) -> None:
    from credit_lab.map.cells_table import write_results

    print(write_results())
