"""MEDIQ's files: MedQA development and test cases, and iCRAFT-MD."""

from typing import Any

from data_prep.real.parts import make_case
from data_prep.real.rows import BadRow, Converted, Origin, check_text, take, take_number, take_texts

NAME = "mediq"
FIELDS = {"id", "question", "context", "options", "answer", "answer_idx"}


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row: the first sentence of `context` is the initial information.

    Facts are `atomic_facts`, which leave the initial information out, or else `facts`, which can
    repeat it; `facts_old` was superseded by its authors and is never read. A row without any
    context has no initial information.

    Raises BadRow or Conflict.
    """
    number, context = take_number(row, "id"), take_texts(row, "context")
    facts = next((name for name in ("atomic_facts", "facts") if name in row), None)
    if facts is None:
        raise BadRow("the row has neither 'atomic_facts' nor 'facts'")
    case = {
        "case_id": origin.identify(number, line),
        "source": origin.source,
        "initial": context[0] if context else "",
        "question": check_text(row.get("question"), "'question'"),
        "options": take(row, "options", dict),
        "answer": check_text(row.get("answer_idx"), "'answer_idx'"),
        "origin": {"file": origin.file, "row": line},
    }
    return make_case(case, take_texts(row, facts), check_text(row.get("answer"), "'answer'"))
