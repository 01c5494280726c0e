"""The clinic's world as studies have it: made from settings, kept in a file, written as cases.

World, patients and sentences are those of the package `clinic_env`.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from clinic_env.posterior import posterior
from clinic_env.world import Patient, World, draw_world, write_case
from pcqc.cases.case import Case
from pcqc.seeds import generator
from pcqc_base.errors import UserError, one_line
from pcqc_base.settings import Benchmark, Clinic
from pcqc_base.system.files import read_json, write_json

# Where a doctor can lose points (`lost_points.py`).
PLACES = ("asking", "remembering", "concluding", "stopping")


def make_world(settings: Clinic) -> World:
    """The world of a study's settings."""
    return draw_world(
        generator(settings.seed, "world"),
        diseases=settings.diseases,
        complaints=settings.complaints,
        complaint_odds=settings.complaint_odds,
        noise=settings.noise,
    )


def save_world(world: World, path: Path) -> None:
    """Write a world as JSON."""
    write_json(path, world.to_json())


def load_world(path: Path) -> World:
    """Read a world; UserError where the file holds none."""
    try:
        return World.from_json(read_json(path))
    except ValueError:
        raise UserError(
            f"{path}: not a clinic's world; remove it, then rerun `make results`"
        ) from None


def require_of_world(world: World, cases: Iterable[Case], path: Path) -> None:
    """Refuse cases that are not of a world, as an altered file has them.

    Raises:
        UserError: an option is no disease of the world, or the complaint is none; names file, case
            and remedy.
    """
    for case in cases:
        try:
            posterior(world, case, {})
        except ValueError as problem:
            raise UserError(
                f"{path}, case '{case.case_id}': {one_line(str(problem))}; the file was altered: "
                f"move {path.parent} away and run the workflow again"
            ) from None


def as_case(
    world: World, patient: Patient, case_id: str, benchmark: Benchmark, rng: np.random.Generator
) -> Case:
    """Write a patient as a case of a benchmark."""
    written = write_case(world, patient, rng, benchmark.recorded_facts, benchmark.wording)
    origin: dict[str, str | int] = {"file": "synthetic", "row": int(case_id.rsplit("-", 1)[1])}
    return Case(case_id=case_id, source="clinic", **vars(written), origin=origin)
