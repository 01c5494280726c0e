"""Pretrained models of a real study, put where its jobs look for them."""

from pcqc.models.pretrained import install
from pcqc_base.task import Task


def run(task: Task) -> None:
    """Install every pretrained model of the study, each once, in a folder of its own."""
    for folder, source in task.settings.pretrained.items():
        install(source, task.folder / folder)
