"""The synthetic clinic of a study: its data, and what is known exactly of it."""

from collections.abc import Callable, Sequence
from functools import partial

from pcqc.cases.case import Case
from pcqc.clinic.build import build_clinic
from pcqc.clinic.expected import KnownWorld
from pcqc.clinic.judge import ClinicJudge
from pcqc.clinic.quality import Values, early_quality
from pcqc.clinic.world import World
from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import sha256_file


def run_clinic(study: Study) -> None:
    """Draw the clinic's files; UserError where the same settings made other files before."""
    folder, result = Paths.of(study).data, job_output(study, "clinic")
    before = result.begin(resumable=True)
    names = build_clinic(study.clinic, study.benchmarks, study.protocol.instruction, folder)
    for name, digest in (before.outputs or {}).items():
        if sha256_file(folder / name) != digest:
            raise UserError(
                f"{folder / name}: the same settings and modules make another file than before "
                f"(another version of numpy?); move {folder} away and run the workflow again "
                "if the study is to begin anew"
            )
    result.finish(names)


def clinic_judge(study: Study) -> ClinicJudge:
    """The judge of a synthetic study's answers."""
    return ClinicJudge(_world(study))


def validation_quality(
    study: Study,
) -> Callable[[Sequence[Case], Sequence[dict]], dict[str, float]]:
    """`early_quality` on the development benchmark of a synthetic study."""
    world = _world(study)
    rates = world.rates(study.benchmarks[study.development].base_rates)
    return partial(early_quality, Values(world, rates))


def known_world(study: Study) -> KnownWorld:
    """What the methods that need the world of a synthetic study may ask."""
    return KnownWorld(_world(study))


def _world(study: Study) -> World:
    job_output(study, "clinic").require("world.json")
    return World.load(Paths.of(study).world)
