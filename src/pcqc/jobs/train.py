"""Training of one run of a method, and what the clinic adds to it."""

from functools import partial

from pcqc.jobs.rl_loop import Run
from pcqc.recipes.manifest import checked
from pcqc.recipes.tasks import Task
from pcqc.system.determinism import single_threaded
from pcqc.system.processes import SINGLE_PROCESS, Processes


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> dict | None:
    """Train one run of a method, resuming its saved state where there is one.

    Every process does all of it with its share of the rollouts and the learning; the first writes.
    In the clinic validations say how good the first questions are, and a method may ask the world.

    Returns:
        Entries of the manifest, in the first process.
    """
    single_threaded(task.settings.deterministic)
    measure = world = None
    if "world" in task.inputs:
        from clinic_env.posterior import Values
        from pcqc.clinic.quality import early_quality
        from pcqc.clinic.world import load_world

        clinic = load_world(checked(task.inputs["world"]))
        (benchmark,) = task.settings.development.values()
        measure = partial(early_quality, Values(clinic, clinic.rates(benchmark.base_rates)))
        if "world" in task.settings.method.needs:
            from pcqc.clinic.known_world import KnownWorld

            world = KnownWorld(clinic)
    return Run(task, processes, measure, world).train()
