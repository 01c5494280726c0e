"""Training of one run of a method."""

from collections.abc import Callable

from pcqc.determinism import single_threaded
from pcqc.jobs.rl_loop import Run
from pcqc.methods.base import World
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task


def run(
    task: Task,
    processes: Processes = SINGLE_PROCESS,
    measure: Callable | None = None,
    world: World | None = None,
) -> dict | None:
    """Train one run of a method, resuming its saved state where there is one.

    Every process does all of it with its share of the rollouts and the learning; the first writes.

    Args:
        task: settings, cases and models.
        processes: that do it together.
        measure: further numbers of a validation's dialogues; see `Run`.
        world: the clinic's, for a method that asks it.

    Returns:
        Entries of the manifest, in the first process.
    """
    single_threaded(task.settings.deterministic)
    return Run(task, processes, measure, world).train()
