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
    from credit_lab.audit.table import FOLDER, policies, write_audit
    from credit_lab.audit.tabular import CLINIC

    # Of all studies, the paper's alone changes no setting of config/methods.yaml that counts here.
    print(write_audit(load_study("paper").methods, policies(CLINIC)), end="")
    print(f"\n{FOLDER / 'table.md'}; each number in {FOLDER / 'table.csv'}")


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
    from credit_lab.map.job import train_cell
    from credit_lab.map.settings import load_map

    print(train_cell(load_map(), arguments.cell))


def _figure(_: argparse.Namespace) -> None:
    from credit_lab.map.results import write_results

    for path in write_results():
        print(path)


def _quality_run(arguments: argparse.Namespace) -> None:
    from credit_lab.quality.job import run_credit_quality
    from pcqc.study.paths import Paths
    from pcqc.system.files import hold

    study, method, run = load(arguments), arguments.method, arguments.run
    name = f"credit_quality {method} {run}"
    with hold(Paths.of(study).lock(name), f"`credit-lab {name}`", patience=1.0):
        run_credit_quality(study, method, run)


def _quality_table(arguments: argparse.Namespace) -> None:
    from credit_lab.quality.results import write_results
    from pcqc.study.job_outputs import job_output

    study = load(arguments)
    paths = write_results(study)
    job_output(study, "credits").vouch(paths)
    print(*paths, sep="\n")
