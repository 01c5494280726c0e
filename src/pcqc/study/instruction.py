"""The actor's system message: the study's own, or the one that its published cases carry."""

from pathlib import Path

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.paths import Paths
from pcqc.system.files import read_bytes


def instruction_files(study: Study) -> list[Path]:
    """The file of the system message, an input of every job with consultations.

    Empty if the message is in the settings.
    """
    return [Paths.of(study).instruction] if study.protocol.instruction is None else []


def read_instruction(study: Study) -> str:
    """The actor's system message, byte for byte as in its source.

    Raises:
        UserError: it comes from the study's data, which are not prepared yet.
    """
    if study.protocol.instruction is not None:
        return study.protocol.instruction
    path = Paths.of(study).instruction
    if not path.is_file():
        raise UserError(
            f"{path}: missing; run `pcqc prepare {study.name}`, or give the study "
            "protocol.instruction"
        )
    return read_bytes(path).decode()
