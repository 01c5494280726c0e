"""What the commands of the map do: try rates on the pilot, predict, and train one cell."""

import csv
import dataclasses
from pathlib import Path
from typing import cast

import numpy as np

from credit_lab.map.exact import Prediction, predict
from credit_lab.map.settings import PILOT, Cell, Map
from credit_lab.map.training import Trained, budgets, train
from pcqc.errors import UserError
from pcqc.methods.pcqc import Pcqc
from pcqc.study import Method, load_study
from pcqc.study.load import ROOT
from pcqc.system.files import csv_text, read_bytes, write_atomic, write_json

PREDICTIONS = ROOT / "config" / "map_predictions.csv"
FOLDER = Path("results") / "map"
SHARED, OWN = "shared_rate", "own_rates"
HEADER = ["cell", *(f.name for f in dataclasses.fields(Cell))]
NUMBERS = [f.name for f in dataclasses.fields(Prediction)]


def write_predictions(settings: Map, path: Path = PREDICTIONS) -> None:
    """Write what is predicted of every cell; numbers with four digits after the point."""
    rows = []
    for name, cell in settings.cells.items():
        found = dataclasses.astuple(predict(settings, name))
        values = [f"{v:.4f}" if isinstance(v, float) else v for v in found]
        rows.append([name, *dataclasses.astuple(cell), *values])
    write_atomic(path, csv_text([*HEADER, *NUMBERS], rows))


def read_predictions(path: Path = PREDICTIONS) -> dict[str, dict[str, str]]:
    """Cell -> its row, as written."""
    rows = csv.DictReader(read_bytes(path).decode().splitlines())
    return {row["cell"]: row for row in rows}


def pilot_table(settings: Map) -> str:
    """Accuracy of each method on the pilot cell at each rate, as Markdown."""
    names = settings.training.methods
    place = 1 + settings.training.budgets.index(settings.training.budget)
    lines = [f"| rate | {' | '.join(names)} | mean |", "|---|" + "---|" * (len(names) + 1)]
    for rate in settings.pilot_rates:
        runs = [_trained(settings, settings.cell(PILOT), name, rate) for name in names]
        found = [one.accuracy[place].mean() for one in runs]
        cells = [f"{value:.2f}" for value in [*found, np.mean(found)]]
        lines.append(f"| {rate:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def train_cell(settings: Map, name: str, folder: Path = FOLDER) -> Path:
    """Train all methods in a cell, with the shared rate and with their own; write `<name>.json`.

    A cell without a prediction is not trained.
    """
    predicted = read_predictions()
    if name not in predicted:
        raise UserError(
            f"{PREDICTIONS}: no prediction for '{name}'; run `credit-lab map predict` first"
        )
    cell, given = settings.cell(name), settings.training
    shared = dict.fromkeys(given.methods, given.learning_rate)
    done = {
        (method, rate): _plain(_trained(settings, cell, method, rate))
        for method, rate in dict.fromkeys([*shared.items(), *given.own_rates.items()])
    }
    found = {
        kind: {method: done[method, rate] for method, rate in rates.items()}
        for kind, rates in ((SHARED, shared), (OWN, given.own_rates))
    }
    path = folder / f"{name}.json"
    write_json(
        path,
        {
            "cell": name,
            "settings": dataclasses.asdict(cell),
            "prediction": {key: predicted[name][key] for key in NUMBERS},
            "rule": dataclasses.asdict(settings.rule),
            "budgets": [0, *given.budgets],
            "budget": given.budget,
            "trained": found,
        },
    )
    return path


def _trained(settings: Map, cell: Cell, name: str, rate: float) -> Trained:
    """Runs of one method in a cell."""
    known = load_study("paper").methods
    costs = budgets(settings, cell, cast(Pcqc, known["pcqc"]))
    return train(settings, cell, _in_cell(known[name], cell), name, rate, costs)


def _in_cell(method: Method, cell: Cell) -> Method:
    """A method with the cell's G_Q, if it has candidates."""
    if not isinstance(method, Pcqc):
        return method
    return dataclasses.replace(method, question_group=cell.question_group)


def _plain(trained: Trained) -> dict[str, list]:
    """Numbers of every budget and run, to four digits after the point."""
    rows = dataclasses.asdict(trained).items()
    return {name: np.round(value, 4).tolist() for name, value in rows}
