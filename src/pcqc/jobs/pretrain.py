"""The base model of a synthetic study."""

from pcqc.clinic.pretrain import pretrain
from pcqc.clinic.world import World
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths


def run_pretrain(study: Study) -> None:
    """Train the base model, resuming it where it was stopped."""
    paths, result = Paths.of(study), job_output(study, "pretrain")
    if result.stands():
        return
    job_output(study, "clinic").require("world.json")
    models = paths.root / "models"
    fingerprint = result.begin().made_from.fingerprint
    names = pretrain(
        World.load(paths.world),
        study.scratch_model,
        study.protocol.instruction,
        tokens_per_micro_batch=study.rl.tokens_per_micro_batch,
        models=models,
        state=models / "state" / f"base-{fingerprint}",
    )
    result.finish(names)
