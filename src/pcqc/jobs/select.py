"""Selection of a run's checkpoint, and the weights of the selected one."""

from pathlib import Path

from pcqc.errors import UserError
from pcqc.evaluation.selection import select
from pcqc.jobs.make_roles import Weights, role_weights, weights_of
from pcqc.results.manifest import checked, read_manifest
from pcqc.results.tasks import Task
from pcqc.system.files import read_json, write_json


def run(task: Task) -> None:
    """Choose the run's checkpoint on the development benchmark and write what was rejected."""
    benchmark = task.settings.development
    if task.settings.trained:
        choice = select(benchmark, read_manifest(task.inputs["run"])["checkpoints"])
    else:  # Shared SFT is one checkpoint: there is nothing to reject.
        nothing = {"update": 0, "accuracy": None, "turns": None, "actor_tokens": None}
        choice = {
            "benchmark": benchmark,
            "criterion": "one",
            "selected": nothing,
            "rejected": [],
        }
    write_json(task.folder / "selection.json", choice)


def selected_weights(task: Task) -> tuple[int, str, Weights]:
    """Number of updates, digest and weights of a run's selected checkpoint.

    Raises:
        UserError: the choice or the checkpoint is not the one that was written.
    """
    update = read_json(checked(task.inputs["selection"]))["selected"]["update"]
    if not update:
        weights = role_weights(task, "actor")
        return 0, digest_of(weights.folder), weights
    return update, *checkpoint_weights(task, update)


def checkpoint_weights(task: Task, update: int) -> tuple[str, Weights]:
    """Digest and weights of the checkpoint after so many updates."""
    folder = task.inputs["run"]
    checkpoints = read_manifest(folder)["checkpoints"]
    entry = next((entry for entry in checkpoints if entry["update"] == update), None)
    if entry is None:
        raise UserError(f"{folder}: the run has no checkpoint of update {update}")
    return entry["digest"], weights_of(folder / entry["path"], task.settings.dtypes["actor"])


def digest_of(folder: Path) -> str:
    """Digest of a folder of weights: its manifest's SHA-256."""
    from pcqc.system.files import sha256_file

    return sha256_file(folder / "manifest.json")
