"""ATPO's dialogue files: MedQA, MedicalExam and MedMCQA splits, and the RL training cases."""

from typing import Any

from data_prep.real.parts import make_case
from data_prep.real.rows import (
    BadRow,
    Converted,
    Origin,
    check_text,
    take,
    take_number,
    take_texts,
)
from data_prep.real.user_message import read_opening

NAME = "atpo-dialogues"
FIELDS = {"prompt", "ground_truth", "extra_info", "data_source", "index"}


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row; its set (`data_source`) is kept in the case's origin.

    Raises BadRow or Conflict.
    """
    truth, extra = take(row, "ground_truth", dict), take(row, "extra_info", dict)
    data_source = check_text(row.get("data_source"), "'data_source'")
    index = take_number(row, "index")
    opening = read_opening(_user_message(row))
    case = {
        "case_id": origin.identify(index, line),
        "source": origin.source,
        "initial": opening.initial,
        "question": check_text(opening.question, "the question"),
        "options": opening.options,
        "answer": check_text(truth.get("answer"), "'answer'"),
        "origin": {"file": origin.file, "row": line, "set": data_source},
    }
    answer_text = check_text(truth.get("answer_info"), "'answer_info'")
    return make_case(case, take_texts(extra, "atomic_facts"), answer_text)


def _user_message(row: dict[str, Any]) -> str:
    """The one user message of a prompt of a system and a user message."""
    messages = take(row, "prompt", list)
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
    if roles != ["system", "user"]:
        raise BadRow("'prompt' must be a system message and a user message")
    return check_text(messages[1].get("content"), "the user message")
