"""What a role's text begins with: the actor's system message, and a model's chat format with it."""

from pathlib import Path

from pcqc.cases.chat import ChatFormat
from pcqc.models.folder import end_tokens, load_tokenizer
from pcqc_base.system.files import read_bytes
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task


def instruction(task: Task) -> str:
    """The actor's system message, byte for byte as in its source: the study's or its cases'."""
    given = task.settings.protocol.instruction
    return read_bytes(checked(task.inputs["instruction"])).decode() if given is None else given


def chat_format(task: Task, folder: Path) -> ChatFormat:
    """Chat format of the model in `folder`; UserError where no consultation fits its template."""
    return ChatFormat(load_tokenizer(folder), instruction(task), end_tokens(folder))
