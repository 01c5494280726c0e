"""The synthetic clinic's cases and SFT conversations."""

from pcqc.task import Task
from pcqc_clinic.build import build_clinic


def run(task: Task) -> dict:
    """Draw the clinic; the number of rows of each file."""
    settings = task.settings
    rows = build_clinic(
        settings.clinic, settings.benchmarks, settings.protocol.instruction, task.folder
    )
    return {"rows": rows}
