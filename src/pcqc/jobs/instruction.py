"""The actor's system message: the study's own, or the one that its published cases carry."""

from pcqc_base.system.files import read_bytes
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task


def instruction(task: Task) -> str:
    """The actor's system message, byte for byte as in its source."""
    given = task.settings.protocol.instruction
    return read_bytes(checked(task.inputs["instruction"])).decode() if given is None else given
