"""Where a run's doctors lose their points; only the clinic can tell."""

from collections.abc import Iterator

import pyarrow as pa

from clinic_env.posterior import Values
from pcqc.determinism import single_threaded
from pcqc.evaluation.predictions import write_table
from pcqc.jobs.make_roles import (
    Weights,
    checked_cases,
    checkpoint_weights,
    make_context,
    role_weights,
)
from pcqc_base.system.manifest import checked, read_manifest
from pcqc_base.system.progress import Progress
from pcqc_base.task import Task
from pcqc_clinic.lost_points import split
from pcqc_clinic.world import PLACES, load_world, require_of_world

MEASURED = ("policy", "exact", *PLACES)  # in shares of a right diagnosis
POINTS = pa.schema(
    [
        ("update", pa.int64()),
        ("case_id", pa.string()),
        *((name, pa.float64()) for name in MEASURED),
    ]
)


def run(task: Task) -> dict:
    """Write `points.parquet`, a row for each checkpoint and case; their means, for the manifest."""
    settings = task.settings
    single_threaded(settings.deterministic)
    world = load_world(checked(task.inputs["world"]))
    values = Values(world, world.rates(settings.base_rates))
    cases = checked_cases(task.inputs["development"])[: settings.cases]
    require_of_world(world, cases, task.inputs["development"])
    checkpoints = dict(_checkpoints(task))
    progress = Progress(" ".join(["lost points", *task.arguments]), len(checkpoints), "checkpoint")
    context, rows, means = None, [], {}
    for update, weights in checkpoints.items():
        if context is None:
            context = make_context(task, weights)
        else:
            context.actor.engine.load_weights(weights.load().named_parameters())
        name, seed = settings.development, settings.evaluation_seed
        parts = split(context, values, cases, seed=seed, benchmark=name)
        for place, case in enumerate(cases):
            measured = {key: float(parts[key][place]) for key in MEASURED}
            rows.append({"update": update, "case_id": case.case_id, **measured})
        means[str(update)] = {key: float(parts[key].mean()) for key in MEASURED}
        progress.advance(**{key: means[str(update)][key] for key in PLACES})
    progress.close()
    write_table(task.folder / "points.parquet", pa.Table.from_pylist(rows, POINTS))
    return {"benchmark": settings.development, "cases": len(cases), "updates": means}


def _checkpoints(task: Task) -> Iterator[tuple[int, Weights]]:
    """Updates and weights of the checkpoints to split; Shared SFT is its own only one."""
    if "run" not in task.inputs:
        yield 0, role_weights(task, "actor")
        return
    made = read_manifest(checked(task.inputs["run"]))["checkpoints"]
    for entry in made if task.settings.course else made[-1:]:
        yield entry["update"], checkpoint_weights(task, entry["update"])[1]
