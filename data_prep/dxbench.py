"""DxBench's cases (`DxBench_en.json`): symptoms told, symptoms to ask for, candidate diseases."""

from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

from data_prep.parts import QUESTION, make_case, plain
from data_prep.rows import (
    BadRow,
    Conflict,
    Converted,
    Origin,
    check_text,
    take,
    take_number,
    take_text,
    take_texts,
)

NAME = "dxbench"
FIELDS = {"id", "explicit_symptoms", "implicit_symptoms", "candidate_diseases", "disease"}
READ = FIELDS


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row: explicit symptoms are told, the patient knows the implicit ones.

    Candidates that the translation made equal are one option. Raises BadRow, or Conflict where
    that leaves one.
    """
    number, disease = take_number(row, "id"), take_text(row, "disease")
    told = [text if has else f"no {text}" for text, has in _symptoms(row, "explicit_symptoms")]
    known = _symptoms(row, "implicit_symptoms")
    facts = [f"{text}: {'yes' if has else 'no'}" for text, has in known]
    distinct: dict[str, str] = {}
    for text in take_texts(row, "candidate_diseases"):
        distinct.setdefault(plain(text), text)
    if plain(disease) not in distinct:
        raise BadRow(f"'disease' is '{disease}', which 'candidate_diseases' do not have")
    if len(distinct) > len(ascii_uppercase):
        raise BadRow(f"'candidate_diseases' has more than {len(ascii_uppercase)} items")
    case_id = origin.identify(number, line)
    if len(distinct) < 2:
        raise Conflict(case_id, f"'{disease}' is the only candidate disease")
    case = {
        "case_id": case_id,
        "initial": ", ".join(told),
        "question": QUESTION,
        "options": dict(zip(ascii_uppercase, distinct.values(), strict=False)),
        "answer": ascii_uppercase[[*distinct].index(plain(disease))],
    }
    return make_case(origin, line, case, facts, disease)


def _symptoms(row: dict[str, Any], name: str) -> Iterator[tuple[str, bool]]:
    """Each symptom, and whether the patient has it. Raises BadRow."""
    for item in take(row, name, list):
        if not isinstance(item, list) or len(item) != 2 or item[1] not in ("True", "False"):
            raise BadRow(f'an item of \'{name}\' must be ["a symptom", "True" or "False"]')
        yield check_text(item[0], f"a symptom of '{name}'"), item[1] == "True"
