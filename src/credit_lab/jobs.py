"""The jobs of the map, beside those of a study (`pcqc.recipes.graph`)."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credit_lab.map.settings import CELLS, RULE, Fit, load_map
from pcqc.recipes.recipe import Job

FOLDER = Path("results") / "map"


@dataclass(frozen=True)
class BlockSettings:
    """What is trained in a block of cells, and how."""

    seed: int
    runs: int
    training: Mapping[str, Any]
    cells: Mapping[str, Any]


@dataclass(frozen=True)
class FigureSettings:
    """How the rule is judged."""

    rule: Fit


def map_block(name: str) -> Job:
    """Linear policies trained in the cells of one block of the map."""
    given = load_map()
    cells = {cell: dataclasses.asdict(each) for cell, each in given.blocks[name].items()}
    settings = BlockSettings(given.seed, given.runs, dataclasses.asdict(given.training), cells)
    return Job("map block", (name,), FOLDER / name, settings, ("credit_lab.map.job",), {})


def map_figure() -> Job:
    """Tables and figure of the map."""
    given, entries = load_map(), ("credit_lab.map.results",)
    inputs = {name: map_block(name) for name in given.block_names}
    files = {"cells": CELLS, **({"rule": RULE} if RULE.exists() else {})}
    settings = FigureSettings(given.rule)
    return Job("map figure", (), FOLDER / "figure", settings, entries, {**inputs, **files})
