"""The clinic's base model, trained from scratch."""

from typing import TYPE_CHECKING

from pcqc.clinic.pretrain import pretrain
from pcqc.clinic.world import World
from pcqc.results.manifest import checked

if TYPE_CHECKING:
    from pcqc.results.tasks import Task


def run(task: "Task") -> None:
    """Train the base model, resuming its saved state where there is one."""
    settings = task.settings
    pretrain(
        World.load(checked(task.inputs["world"])),
        settings.scratch_model,
        settings.protocol.instruction,
        tokens_per_micro_batch=settings.tokens_per_micro_batch,
        models=task.folder,
        state=task.state / "base",
    )
