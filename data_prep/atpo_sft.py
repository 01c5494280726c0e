"""ATPO's SFT file: each row is one actor turn in ChatML, with the turns before it."""

import re
from typing import Any

from data_prep.rows import BadRow, Converted, Origin, check_text, take_text
from pcqc.cases.sft_rows import SftRow

NAME = "atpo-sft"
FIELDS = {"prompt", "response"}
READ = FIELDS
START, END = "<|im_start|>", "<|im_end|>"
OPEN = f"{START}assistant\n"
_MESSAGE = re.compile(r"<\|im_start\|>(system|user|assistant)\n(.*?)<\|im_end\|>\n", re.DOTALL)


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """Messages and target of a row; nothing of its texts is lost.

    Raises BadRow if the prompt is not ChatML that ends with an opened assistant message.
    """
    messages = read_chatml(take_text(row, "prompt"))
    response, end = split_end(take_text(row, "response"))
    where: dict[str, str | int] = {"file": origin.file, "row": line, "end": end}
    name = origin.identify(line, line)
    record = SftRow(name, origin.source, messages, response, where)
    return Converted(record, system=messages[0]["content"])


def read_chatml(prompt: str) -> list[dict[str, str]]:
    """Messages of a ChatML prompt that ends with an opened assistant message."""
    parts = list(_MESSAGE.finditer(prompt))
    messages = [{"role": part[1], "content": part[2]} for part in parts]
    if chatml(messages) != prompt:
        raise BadRow(f"'prompt' must be ChatML messages followed by '{START}assistant'")
    roles = [message["role"] for message in messages]
    turns = len(roles) // 2
    if roles != ["system", "user"] + ["assistant", "user"] * (turns - 1) or not turns:
        raise BadRow(
            "'prompt' must hold a system message, then user and assistant messages in turn, the "
            f"user's last; found {', '.join(roles) or 'none'}"
        )
    if any(START in message["content"] for message in messages):
        raise BadRow(f"a message of 'prompt' holds '{START}'")
    return messages


def chatml(messages: list[dict[str, str]]) -> str:
    """A prompt in ChatML, up to the opened assistant message."""
    parts = (f"{START}{message['role']}\n{message['content']}{END}\n" for message in messages)
    return "".join(parts) + OPEN


def split_end(response: str) -> tuple[str, str]:
    """A response without the text that ends its turn, and that text (empty if there is none)."""
    body, end, rest = response.partition(END)
    if rest.strip() or START in body:
        raise BadRow(f"'response' must be one message, ended by '{END}'")
    return check_text(body, "'response'"), end + rest
