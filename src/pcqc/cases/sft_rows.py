"""Published SFT rows: an actor turn, or all of a conversation, to imitate."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.errors import UserError
from pcqc_base.settings.types import STRICT
from pcqc_base.system.files import read_jsonl

Text = Annotated[str, Field(pattern=r"\S")]  # not blank


@dataclass(frozen=True, config=STRICT)
class SftRow:
    """What to imitate, as its source words it.

    Attributes:
        id: unique and stable within its source.
        source: where the row comes from.
        messages: earlier messages, each {"role", "content"}: system, user, assistant, user, ...
        response: the target: what the assistant says next, thinking included.
        origin: file and row, and `end`, the exact text that closed the response.
        train: on the response, the `last` message, or on `all` of the assistant's.
    """

    id: Text
    source: str
    messages: Annotated[list[dict[str, str]], Field(min_length=2)]
    response: Text
    origin: dict[str, str | int]
    train: Literal["last", "all"] = "last"


def read_sft_rows(path: Path) -> list[SftRow]:
    """Read SFT rows from JSONL. Raises UserError naming file and line of a bad row."""
    rows = []
    for line, row in read_jsonl(path):
        try:
            rows.append(SftRow(**row))
        except (TypeError, ValueError):
            fields = ", ".join(SftRow.__dataclass_fields__)
            raise UserError(
                f"{path}, line {line}: is no SFT row with the fields {fields}; "
                "rerun `pcqc data convert`"
            ) from None
    if not rows:
        raise UserError(f"{path}: holds no rows; rerun `pcqc data convert`")
    return rows
