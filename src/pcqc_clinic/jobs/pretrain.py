"""The clinic's base model, trained from scratch."""

from pcqc.jobs.instruction import instruction
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task
from pcqc_clinic.pretrain import pretrain
from pcqc_clinic.world import load_world


def run(task: Task) -> None:
    """Train the base model, resuming its saved state where there is one."""
    settings = task.settings
    pretrain(
        load_world(checked(task.inputs["world"])),
        settings.scratch_model,
        instruction(task),
        tokens_per_micro_batch=settings.tokens_per_micro_batch,
        models=task.folder,
        state=task.state / "base",
    )
