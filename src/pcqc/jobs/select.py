"""Selection of a run's checkpoint: a job of a moment, so it imports no model."""

from pcqc.evaluation.selection import select
from pcqc_base.system.files import write_json
from pcqc_base.system.manifest import read_manifest
from pcqc_base.task import Task


def run(task: Task) -> None:
    """Choose the run's checkpoint on the development benchmark and write what was rejected."""
    benchmark = task.settings.development
    if task.settings.trained:
        choice = select(benchmark, read_manifest(task.inputs["run"])["checkpoints"])
    else:  # Shared SFT is one checkpoint: there is nothing to reject.
        start = {"update": 0, "accuracy": None, "turns": None, "actor_tokens": None}
        choice = {"benchmark": benchmark, "criterion": "one", "selected": start, "rejected": []}
    write_json(task.folder / "selection.json", choice)
