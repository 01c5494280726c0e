"""Selection of a run's checkpoint."""

import dataclasses

from pcqc.errors import UserError
from pcqc.evaluation.selection import check_role, select
from pcqc.study import Study
from pcqc.study.job_outputs import is_trained, job_output
from pcqc.study.shapes import RunManifest, Selection
from pcqc.system.files import read_json, write_json


def run_selection(study: Study, method: str, run: str, benchmark: str | None = None) -> None:
    """Choose the run's checkpoint on the development benchmark and write what was rejected.

    An evaluation of another choice is set aside.
    """
    benchmark = benchmark or study.development
    check_role(study.benchmarks, benchmark)
    result = job_output(study, "select", method, run)
    if result.stands():
        return
    choice = _choice(study, method, run, benchmark)
    if known := result.receipt():
        known.restore_manifests()
    evaluation = job_output(study, "evaluate", method, run)
    evaluated = evaluation.manifest.exists() or evaluation.receipt_path.exists()
    if evaluated and result.path.is_file() and read_json(result.path) != choice:
        whole = dataclasses.replace(evaluation, keep=())
        whole.set_aside(["another choice of checkpoint"], evaluation.receipt())
    result.begin(resumable=True)
    write_json(result.path, choice)
    result.finish(["selection.json"])


def selected_checkpoint(study: Study, method: str, run: str) -> tuple[int, dict]:
    """Number of updates of a run's selected checkpoint, and its entry in the run's manifest.

    It is 0 with an empty entry for Shared SFT, which is one checkpoint.

    Raises:
        UserError: the choice is not the one that was written, or not of this run.
    """
    result = job_output(study, "select", method, run)
    remedy = f"remove {result.path} and run the workflow again"
    result.require()
    selected = read_json(result.path, Selection, remedy)["selected"]
    if not is_trained(study, method):
        return 0, {}
    checkpoints = checkpoints_of(study, method, run)
    if selected["update"] not in checkpoints:
        raise UserError(f"{result.path}: the run has no such checkpoint; {remedy}")
    return selected["update"], checkpoints[selected["update"]]


def checkpoints_of(study: Study, method: str, run: str) -> dict[int, dict]:
    """Update -> entry in the run's manifest."""
    return {one["update"]: one for one in run_manifest(study, method, run)["checkpoints"]}


def run_manifest(study: Study, method: str, run: str) -> dict:
    """A finished run's manifest; UserError where it is not the one that was written."""
    trained = job_output(study, "train", method, run)
    trained.require("manifest.json")
    remedy = f"remove {trained.manifest} and run the workflow again"
    return read_json(trained.manifest, RunManifest, remedy)


def _choice(study: Study, method: str, run: str, benchmark: str) -> dict:
    if is_trained(study, method):
        return select(benchmark, run_manifest(study, method, run)["checkpoints"])
    # Shared SFT is one checkpoint: there is nothing to reject.
    nothing = {"update": 0, "accuracy": None, "turns": None, "actor_tokens": None}
    return {"benchmark": benchmark, "criterion": "one", "selected": nothing, "rejected": []}
