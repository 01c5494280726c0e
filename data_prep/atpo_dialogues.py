"""ATPO's dialogue files: MedQA, MedicalExam and MedMCQA splits, and the RL training cases."""

from typing import Any

from data_prep.parts import make_case
from data_prep.rows import (
    BadRow,
    Converted,
    Origin,
    check_text,
    take,
    take_number,
    take_text,
    take_texts,
)
from data_prep.user_message import read_opening

NAME = "atpo-dialogues"
FIELDS = {"prompt", "ground_truth", "extra_info", "data_source", "index"}
READ = {"prompt", "ground_truth.answer", "ground_truth.answer_info", "extra_info.atomic_facts"}
READ |= {"data_source", "index"}


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row; its origin keeps its set (`data_source`).

    Raises BadRow or Conflict.
    """
    truth, extra = take(row, "ground_truth", dict), take(row, "extra_info", dict)
    own_set, index = take_text(row, "data_source"), take_number(row, "index")
    system, user = _messages(row)
    opening = read_opening(user)
    case = {
        "case_id": origin.identify(index, line),
        "initial": opening.initial,
        "question": check_text(opening.question, "the question"),
        "options": opening.options,
        "answer": take_text(truth, "answer"),
    }
    facts, text = take_texts(extra, "atomic_facts"), take_text(truth, "answer_info")
    return make_case(origin, line, case, facts, text, system=system, set=own_set)


def _messages(row: dict[str, Any]) -> tuple[str | None, str]:
    """The texts of a prompt: of the system message, where it has such, and of the user's."""
    messages = take(row, "prompt", list)
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
    if roles not in (["system", "user"], ["user"]):
        raise BadRow("'prompt' must be a system message and a user message, or the latter alone")
    *before, user = (message.get("content") for message in messages)
    system = check_text(before[0], "the system message") if before else None
    return system, check_text(user, "the user message")
