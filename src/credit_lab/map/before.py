"""What is done before any cell is trained: its quantities are measured, a learning rate chosen."""

import csv
import dataclasses
from pathlib import Path

from credit_lab.map.quantities import QUANTITIES, of_cell
from credit_lab.map.settings import CELLS, Cell, Map
from credit_lab.map.training import train
from pcqc.system.files import csv_text, read_bytes, write_atomic

PILOT_CELLS, PILOT_RATES = 6, (0.02, 0.04, 0.08)


def write_cells(settings: Map, path: Path = CELLS) -> None:
    """Write settings and quantities of every cell; quantities with four digits after the point."""
    rows = [
        [name, *dataclasses.astuple(cell), *(f"{v:.4f}" for v in of_cell(settings, cell).values())]
        for name, cell in settings.design.items()
    ]
    fields = [field.name for field in dataclasses.fields(Cell)]
    header = ["cell", *fields, *(f"measured_{name}" for name in QUANTITIES)]
    write_atomic(path, csv_text(header, rows))


def read_cells(path: Path = CELLS) -> dict[str, dict[str, float]]:
    """Cell -> its quantities, as written."""
    rows = csv.DictReader(read_bytes(path).decode().splitlines())
    return {
        row["cell"]: {name: float(row[f"measured_{name}"]) for name in QUANTITIES} for row in rows
    }


def pilot_table(settings: Map) -> str:
    """Accuracy of each method by learning rate in the first fitting cells, as Markdown."""
    methods = settings.training.methods
    lines = [f"| cell | rate | {' | '.join(methods)} |", "|---|---|" + "---|" * len(methods)]
    for name, cell in list(settings.design.items())[:PILOT_CELLS]:
        for rate in PILOT_RATES:
            means = [train(settings, cell, m, rate)["accuracy"].mean() for m in methods]
            lines.append(f"| {name} | {rate} | {' | '.join(f'{v:.1f}' for v in means)} |")
    return "\n".join(lines) + "\n"
