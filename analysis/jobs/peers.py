"""The table of published credits."""

from typing import TYPE_CHECKING

from analysis.tables import peers
from pcqc.settings import Study

if TYPE_CHECKING:
    from pcqc.recipes.tasks import Task


def run(task: "Task", study: Study) -> None:
    """Write the table of every peer that is evaluated."""
    peers.write(study, task.folder)
