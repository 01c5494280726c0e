"""The clinic's base model, trained from scratch."""

from pcqc.clinic.pretrain import pretrain
from pcqc.clinic.world import load_world
from pcqc.recipes.manifest import checked
from pcqc.recipes.tasks import Task


def run(task: Task) -> None:
    """Train the base model, resuming its saved state where there is one."""
    settings = task.settings
    pretrain(
        load_world(checked(task.inputs["world"])),
        settings.scratch_model,
        settings.protocol.instruction,
        tokens_per_micro_batch=settings.tokens_per_micro_batch,
        models=task.folder,
        state=task.state / "base",
    )
