"""What the commands of the map do: try rates on the pilot, predict, and train one cell."""

import csv
import dataclasses
from pathlib import Path

import numpy as np

from credit_lab.map.exact import Prediction, predict
from credit_lab.map.settings import PILOT, Cell, Map
from credit_lab.map.training import train
from pcqc.errors import UserError
from pcqc.study.load import ROOT
from pcqc.system.files import csv_text, read_bytes, write_atomic, write_json

PREDICTIONS = ROOT / "config" / "map_predictions.csv"
SHARED, OWN = "shared_rate", "own_rates"
PREDICTED = [field.name for field in dataclasses.fields(Prediction)]


def write_predictions(settings: Map, path: Path = PREDICTIONS) -> None:
    """Write the prediction of every cell; numbers with four digits after the point."""
    rows = []
    for name, cell in settings.cells.items():
        prediction = dataclasses.astuple(predict(settings, name))
        values = [f"{v:.4f}" if isinstance(v, float) else v for v in prediction]
        rows.append([name, *dataclasses.astuple(cell), *values])
    header = ["cell", *(field.name for field in dataclasses.fields(Cell)), *PREDICTED]
    write_atomic(path, csv_text(header, rows))


def read_predictions(path: Path = PREDICTIONS) -> dict[str, dict[str, str]]:
    """Cell -> its row, as written."""
    rows = csv.DictReader(read_bytes(path).decode().splitlines())
    return {row["cell"]: row for row in rows}


def pilot_table(settings: Map) -> str:
    """Accuracy of each method on the pilot cell at each rate, as Markdown."""
    given, cell = settings.training, settings.cell(PILOT)
    judged = 1 + given.budgets.index(given.budget)
    lines = [f"| rate | {' | '.join(given.methods)} | mean |"]
    lines.append("|---|" + "---|" * (len(given.methods) + 1))
    for rate in settings.pilot_rates:
        means = [
            train(settings, cell, name, rate)["accuracy"][judged].mean() for name in given.methods
        ]
        cells = [f"{value:.2f}" for value in [*means, np.mean(means)]]
        lines.append(f"| {rate:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def train_cell(settings: Map, name: str, folder: Path) -> None:
    """Train all methods in a cell, with the shared rate and with their own; write `cell.json`.

    A cell without a prediction is not trained.
    """
    predictions = read_predictions()
    if name not in predictions:
        raise UserError(
            f"{PREDICTIONS}: no prediction for '{name}'; run `credit-lab map predict` first"
        )
    cell, given = settings.cell(name), settings.training
    rates = {SHARED: dict.fromkeys(given.methods, given.learning_rate), OWN: given.own_rates}
    done = {
        (method, rate): {
            measure: np.round(values, 4).tolist()
            for measure, values in train(settings, cell, method, rate).items()
        }
        for method, rate in dict.fromkeys(pair for row in rates.values() for pair in row.items())
    }
    write_json(
        folder / "cell.json",
        {
            "cell": name,
            "settings": dataclasses.asdict(cell),
            "prediction": {key: predictions[name][key] for key in PREDICTED},
            "rule": dataclasses.asdict(settings.rule),
            "budgets": [0, *given.budgets],
            "budget": given.budget,
            "trained": {
                kind: {method: done[method, rate] for method, rate in row.items()}
                for kind, row in rates.items()
            },
        },
    )
