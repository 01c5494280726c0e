"""Published SFT rows: one actor turn to imitate, with the messages before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcqc.errors import UserError
from pcqc.system.files import read_jsonl


@dataclass(frozen=True)
class SftRow:
    """One actor turn to imitate, as its source words it.

    Attributes:
        id: unique and stable within its source.
        source: where the row comes from.
        messages: earlier messages, each {"role", "content"}: system, user, assistant, user, ...
        response: the target: what the assistant says next, thinking included.
        origin: file and row, and `end`, the exact text that closed the response.
    """

    id: str
    source: str
    messages: list[dict[str, str]]
    response: str
    origin: dict[str, str | int]


_FIELDS = set(SftRow.__dataclass_fields__)


def read_sft_rows(path: Path) -> list[SftRow]:
    """Read SFT rows from JSONL. Raises UserError naming file and line of a bad row."""
    rows = []
    for line, row in read_jsonl(path):
        if problem := _problem(row):
            raise UserError(f"{path}, line {line}: {problem}; rerun `pcqc data convert`")
        rows.append(SftRow(**row))
    if not rows:
        raise UserError(f"{path}: holds no rows; rerun `pcqc data convert`")
    return rows


def _problem(row: dict[str, Any]) -> str | None:
    """What keeps an object from being an SFT row, or None."""
    if set(row) != _FIELDS:
        return f"an SFT row has the fields {', '.join(sorted(_FIELDS))}"
    if not all(isinstance(row[name], str) and row[name].strip() for name in ("id", "response")):
        return "'id' and 'response' must be non-empty strings"
    messages = row["messages"]
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        return "'messages' must be a list of {role, content}"
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        return "'messages' must start with a system and a user message"
    return None


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and set(message) == {"role", "content"}
        and all(isinstance(value, str) for value in message.values())
    )
