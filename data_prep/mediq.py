"""MEDIQ's files: MedQA development and test cases, and iCRAFT-MD.

Releases differ: what the patient says first is `initial_info` or the first sentence of `context`,
a list of sentences or one string, and the facts are in `atomic_facts` or `facts`, as a list or as
one numbered string. A form is read only if its meaning is clear.
"""

import re
from typing import Any

from data_prep.parts import make_case
from data_prep.rows import BadRow, Converted, Origin, take, take_number, take_text, take_texts

NAME = "mediq"
FIELDS = {"id", "question", "context", "options", "answer", "answer_idx"}
# `atomic_facts` leave the initial information out, `facts` can repeat it. Their authors superseded
# `facts_old`, so it is never read.
FACTS = ("atomic_facts", "facts")
READ = FIELDS | {"initial_info", *FACTS}
_SENTENCE_END = re.compile(r"[.?!]\s+\S")


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row. Raises BadRow or Conflict."""
    number, (initial, initial_form) = take_number(row, "id"), read_initial(row)
    name = next((name for name in FACTS if name in row), None)
    if name is None:
        raise BadRow("the row has neither 'atomic_facts' nor 'facts'")
    facts, facts_form = read_facts(row, name)
    case = {
        "case_id": origin.identify(number, line),
        "initial": initial,
        "question": take_text(row, "question"),
        "options": take(row, "options", dict),
        "answer": take_text(row, "answer_idx"),
    }
    form = f"{initial_form}, facts are in '{name}', {facts_form}"
    return make_case(origin, line, case, facts, take_text(row, "answer"), form=form)


def read_initial(row: dict[str, Any]) -> tuple[str, str]:
    """What the patient says first, empty in a row without it, and the form that it has.

    It is `initial_info` where a row has that, as in ALFA's copy of MEDIQ's program, else the first
    sentence of `context`. One string is read if it is one sentence, or one sentence a line.
    Elsewhere its first sentence would be a guess (`Dr. Smith`), so BadRow.
    """
    if row.get("initial_info") is not None:
        return take_text(row, "initial_info"), "the initial information is 'initial_info'"
    if not isinstance(row.get("context"), str):
        return next(iter(take_texts(row, "context")), ""), "'context' is a list"
    lines = [text for text in row["context"].split("\n") if text.strip()]
    if len(lines) < 2 and _SENTENCE_END.search("".join(lines)):
        raise BadRow(
            "'context' is one string of several sentences, so the initial information is unclear; "
            "give a list of sentences, or one sentence a line"
        )
    return next(iter(lines), ""), "'context' is a string"


def read_facts(row: dict[str, Any], name: str) -> tuple[list[str], str]:
    """Facts of a field, and its form. One string must hold one numbered fact a line."""
    if not isinstance(row[name], str):
        return take_texts(row, name), "a list"
    lines = [text for text in row[name].split("\n") if text.strip()]
    if not all(text.startswith(f"{k}. ") for k, text in enumerate(lines, start=1)):
        raise BadRow(f"'{name}' is one string; give a list, or one numbered fact a line")
    return lines, "a string"
