"""The system message that a study's published cases carry.

The paper's conversion preserves the source messages (Appendix A.1), and in ATPO's dialogues the
same system message stands before every case. It is taken from there, and not kept here.
"""

from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import read_json
from pcqc.paths import Paths

TRAINING = "train"


def published_instruction(study: Study) -> tuple[str, str]:
    """The set of cases whose system message is the actor's, and the message.

    The training cases' is taken; where they carry none, as MEDIQ's do not, the development
    benchmark's.

    Raises:
        UserError: neither carries one, or they carry several.
    """
    training = [name for name in study.raw_files if name.startswith(TRAINING)]
    for names in (training, [study.development]):
        found: dict[str, str] = {}
        for name in names:
            if (text := _system_message(study, name)) is not None:
                found.setdefault(text, name)
        if len(found) > 1:
            raise UserError(
                f"{' and '.join(found.values())} carry different system messages; give the study "
                "protocol.instruction"
            )
        for text, name in found.items():
            return name, text
    raise UserError(
        f"neither the training cases nor those of '{study.development}' carry a system message; "
        "give the study protocol.instruction"
    )


def published_otherwise(study: Study, instruction: str) -> list[str]:
    """Sets of cases that were published with another system message than the actor's."""
    names = [name for name in study.raw_files if name != "sft"]
    return [
        name
        for name in names
        if (systems := _systems(study, name))["different"] and systems["text"] != instruction
    ]


def _system_message(study: Study, name: str) -> str | None:
    """The one system message of a converted file's rows; None where their format has none."""
    systems = _systems(study, name)
    if systems["different"] > 1:
        raise UserError(
            f"{Paths.of(study).card(name)}: the rows carry {systems['different']} different system "
            "messages; give the study protocol.instruction"
        )
    return systems["text"]


def _systems(study: Study, name: str) -> dict:
    """What the data card of a converted file says of system messages."""
    card = Paths.of(study).card(name)
    if (systems := read_json(card).get("system_messages")) is None:
        raise UserError(f"{card}: says nothing of system messages; convert the file again")
    return systems
