"""What the commands of the map do before and while cells are trained."""

import dataclasses
from pathlib import Path

import numpy as np

from credit_lab.map.settings import Map
from credit_lab.map.training import train
from pcqc.system.files import write_json


def train_block(settings: Map, block: str, folder: Path) -> None:
    """Train all methods in the cells of a block; write `cells.json`."""
    trained = {
        name: {
            "settings": dataclasses.asdict(cell),
            "trained": {
                method: {
                    measure: np.round(values, 3).tolist()
                    for measure, values in train(settings, cell, method).items()
                }
                for method in settings.training.methods
            },
        }
        for name, cell in settings.blocks[block].items()
    }
    write_json(folder / "cells.json", trained)
