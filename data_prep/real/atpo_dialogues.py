"""ATPO's dialogue files: MedQA, MedicalExam and MedMCQA splits, and the RL training cases."""

import dataclasses
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
    system, user = _messages(row)
    opening = read_opening(user)
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
    made = make_case(case, take_texts(extra, "atomic_facts"), answer_text)
    return dataclasses.replace(made, system=system)


def _messages(row: dict[str, Any]) -> tuple[str, str]:
    """The texts of a prompt of a system and a user message."""
    messages = take(row, "prompt", list)
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
    if roles != ["system", "user"]:
        raise BadRow("'prompt' must be a system message and a user message")
    system, user = (message.get("content") for message in messages)
    return check_text(system, "the system message"), check_text(user, "the user message")
