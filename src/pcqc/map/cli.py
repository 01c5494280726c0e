"""`pcqc map`: try learning rates, predict, train one cell."""

import argparse


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add `pcqc map` and its actions; each sets `handler`, called with the arguments."""
    text = "where question credit pays: predict, then train linear policies in small clinics"
    actions = subparsers.add_parser("map", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    for name, handler, what in (
        ("pilot", _pilot, "print each method's accuracy by learning rate, on a cell of no map"),
        ("predict", _predict, "write what is predicted of every cell, without training"),
        ("train", _train, "train all methods in one cell"),
    ):
        action = actions.add_parser(name, help=what, description=what)
        action.set_defaults(handler=handler)
        if name == "train":
            action.add_argument("cell", help="name of a cell, as in config/map_predictions.csv")


def _pilot(arguments: argparse.Namespace) -> None:
    from pcqc.map.job import pilot_table
    from pcqc.map.settings import load_map

    print(pilot_table(load_map()), end="")


def _predict(arguments: argparse.Namespace) -> None:
    from pcqc.map.job import PREDICTIONS, write_predictions
    from pcqc.map.settings import load_map

    write_predictions(load_map())
    print(f"predictions: {PREDICTIONS}")


def _train(arguments: argparse.Namespace) -> None:
    from pcqc.map.job import train_cell
    from pcqc.map.settings import load_map

    print(train_cell(load_map(), arguments.cell))
