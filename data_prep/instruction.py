"""The system message that a study's published cases carry.

The paper's conversion preserves the source messages (app:data_provenance). All of ATPO's dialogues
start with the same system message. It is read from there, and not kept here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json, write_atomic
from pcqc_base.system.manifest import checked

if TYPE_CHECKING:
    from pcqc_base.task import Task


def run(task: "Task") -> dict:
    """Write the actor's system message; which set of cases it is from."""
    cards = {name: checked(card) for name, card in task.inputs.items()}
    name, text = published_instruction(cards, task.settings.training, task.settings.development)
    write_atomic(task.folder / "instruction.txt", text)
    print(f"note: the actor's system message is that of {name}, {len(text):,} characters")
    return {"from": name}


def published_instruction(
    cards: Mapping[str, Path], training: Sequence[str], development: str
) -> tuple[str, str]:
    """The set of cases whose system message the actor gets, and the message.

    It is that of the training cases or, if they have none (MEDIQ), of the development benchmark.

    Args:
        cards: set of cases -> its data card.
        training: names of the training sets.
        development: name of the development benchmark.

    Raises:
        UserError: neither has a system message, or they have several.
    """
    for names in (training, [development]):
        messages: dict[str, str] = {}
        for name in names:
            if (text := _system_message(cards[name])) is not None:
                messages.setdefault(text, name)
        if len(messages) > 1:
            raise UserError(
                f"{' and '.join(messages.values())} have different system messages; give the study "
                "protocol.instruction"
            )
        for text, name in messages.items():
            return name, text
    raise UserError(
        f"neither the training cases nor those of '{development}' have a system message; "
        "give the study protocol.instruction"
    )


def published_otherwise(cards: Mapping[str, Path], instruction: str) -> list[str]:
    """Sets of cases that were published with another system message than the actor's."""
    messages = {name: read_json(card)["system_messages"] for name, card in cards.items()}
    return [
        name
        for name, systems in messages.items()
        if systems["different"] and systems["text"] != instruction
    ]


def _system_message(card: Path) -> str | None:
    """The system message of a converted file's rows; None if their format has none."""
    systems = read_json(card)["system_messages"]
    if systems["different"] > 1:
        raise UserError(
            f"{card}: the rows have {systems['different']} different system "
            "messages; give the study protocol.instruction"
        )
    return systems["text"]
