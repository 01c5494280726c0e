"""The system message that a study's published cases carry.

The paper's conversion preserves the source messages (app:data_provenance). All of ATPO's dialogues
start with the same system message. It is read from there, and not kept here.
"""

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import read_json

TRAINING = "train"


def published_instruction(study: Study) -> tuple[str, str]:
    """The set of cases whose system message the actor gets, and the message.

    It is that of the training cases or, if they have none (MEDIQ), of the development benchmark.

    Raises:
        UserError: neither has a system message, or they have several.
    """
    training = [name for name in study.raw_files if name.startswith(TRAINING)]
    for names in (training, [study.development]):
        messages: dict[str, str] = {}
        for name in names:
            if (text := _system_message(study, name)) is not None:
                messages.setdefault(text, name)
        if len(messages) > 1:
            raise UserError(
                f"{' and '.join(messages.values())} have different system messages; give the study "
                "protocol.instruction"
            )
        for text, name in messages.items():
            return name, text
    raise UserError(
        f"neither the training cases nor those of '{study.development}' have a system message; "
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
    """The system message of a converted file's rows; None if their format has none."""
    systems = _systems(study, name)
    if systems["different"] > 1:
        raise UserError(
            f"{Paths.of(study).card(name)}: the rows have {systems['different']} different system "
            "messages; give the study protocol.instruction"
        )
    return systems["text"]


def _systems(study: Study, name: str) -> dict:
    """The system messages of a converted file, from its data card."""
    card = Paths.of(study).card(name)
    job_output(study, "convert", name).require(card.name)
    return read_json(card)["system_messages"]
