"""Training in the clinic: validations say how good the first questions are."""

from functools import partial

from clinic_env.posterior import Values
from pcqc.jobs import train
from pcqc.jobs.make_roles import checked_cases
from pcqc_base.system.manifest import checked
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task
from pcqc_clinic.quality import early_quality
from pcqc_clinic.world import load_world, require_of_world


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> dict | None:
    """Train one run of a method, as `pcqc.jobs.train` does; a method may ask the world."""
    clinic = load_world(checked(task.inputs["world"]))
    for path in (task.inputs[name] for name in ("train", "development")):
        require_of_world(clinic, checked_cases(path), path)
    measure = partial(early_quality, Values(clinic, clinic.rates(task.settings.base_rates)))
    world = None
    if "world" in task.settings.method.needs:
        from pcqc_clinic.known_world import KnownWorld

        world = KnownWorld(clinic)
    return train.run(task, processes, measure, world)
