"""The published models, and what their card says of each (models/README.md)."""

import re

from pcqc_base.system.checkout import ROOT

MODELS = sorted(folder.name for folder in (ROOT / "models").glob("clinic-*"))
CARD = (ROOT / "models" / "README.md").read_text(encoding="utf-8")


def percentages(row: str, name: str) -> list[float]:
    """The percentages of a row that begins so, in a model's column."""
    (line,) = [line for line in CARD.splitlines() if line.startswith(f"| {row}")]
    cell = line.split("|")[2 + MODELS.index(name)]
    return [float(figure) for figure in re.findall(r"(\d+\.\d) %", cell)]
