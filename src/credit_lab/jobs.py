"""The jobs of the map, beside those of a study (`pcqc.results.graph`)."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credit_lab.map.job import PREDICTIONS
from credit_lab.map.settings import load_map
from pcqc.results.recipe import Job
from pcqc.results.tasks import NoSettings
from pcqc.study import load_study

RESULTS = Path("results")


@dataclass(frozen=True)
class Methods:
    """Settings of the paper's methods, and of the map."""

    methods: Mapping[str, Any]
    settings: Any = None


def map_cell(name: str) -> Job:
    """Linear policies trained in one cell of the map."""
    settings = Methods(load_study("paper").to_dict()["methods"], dataclasses.asdict(load_map()))
    folder, entries = RESULTS / "map" / name, ("credit_lab.map.job",)
    return Job("map cell", (name,), folder, settings, entries, {"predictions": PREDICTIONS})


def map_figure(cells: list[str]) -> Job:
    """Table and figure of the map."""
    inputs = {name: map_cell(name) for name in cells}
    folder, entries = RESULTS / "map" / "figure", ("credit_lab.map.results",)
    return Job("map figure", (), folder, NoSettings(), entries, inputs)
