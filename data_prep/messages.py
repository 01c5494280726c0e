"""Conversations as chat models are fine-tuned on them: a row is a list of messages."""

from typing import Any

from data_prep.rows import BadRow, Converted, Origin, check_text, take
from pcqc.cases.sft_rows import SftRow

NAME = "messages"
FIELDS = {"messages"}
READ = FIELDS


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """A conversation, of which every message of the assistant is trained on. Raises BadRow."""
    messages = [_message(entry) for entry in take(row, "messages", list)]
    roles = [message["role"] for message in messages]
    turns = (len(roles) - 1) // 2
    if not turns or roles != ["system", *["user", "assistant"] * turns]:
        raise BadRow(
            "'messages' must be the system's, then user's and assistant's in turn, the last the "
            f"assistant's; found {', '.join(roles) or 'none'}"
        )
    *before, last = messages
    where: dict[str, str | int] = {"file": origin.file, "row": line}
    record = SftRow(
        origin.identify(line, line), origin.source, before, last["content"], where, train="all"
    )
    return Converted(record, system=messages[0]["content"])


def _message(entry: Any) -> dict[str, str]:
    """Role and text of a message."""
    if not isinstance(entry, dict):
        raise BadRow("a message must be an object with 'role' and 'content'")
    return {
        name: check_text(entry.get(name), f"'{name}' of a message") for name in ("role", "content")
    }
