"""The synthetic clinic's cases and SFT conversations."""

from pcqc.clinic.build import build_clinic
from pcqc.recipes.tasks import Task


def run(task: Task) -> dict:
    """Draw the clinic; the number of rows of each file."""
    settings = task.settings
    rows = build_clinic(
        settings.clinic, settings.benchmarks, settings.protocol.instruction, task.folder
    )
    return {"rows": rows}
