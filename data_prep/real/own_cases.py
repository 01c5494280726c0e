"""Cases that are in the study's own format already, such as a benchmark of one's own."""

from typing import Any

from data_prep.real.rows import BadRow, Converted, Origin, check_text, take, take_texts
from pcqc.cases import Case

NAME = "cases"
FIELDS = {"case_id", "source", "initial", "question", "options", "facts", "answer"}


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row, its texts and its id as they are; `origin` is this file. Raises BadRow."""
    case_id = check_text(row.get("case_id"), "'case_id'")
    if case_id in origin.used:
        raise BadRow(f"its id '{case_id}' repeats the id of an earlier row")
    initial = take(row, "initial", str)
    options = {
        check_text(label, "a label"): check_text(text, f"option '{label}'")
        for label, text in take(row, "options", dict).items()
    }
    try:
        case = Case(
            case_id=case_id,
            source=check_text(row.get("source"), "'source'"),
            initial=check_text(initial, "'initial'") if initial.strip() else "",
            question=check_text(row.get("question"), "'question'"),
            options=options,
            facts=tuple(take_texts(row, "facts")),
            answer=check_text(row.get("answer"), "'answer'"),
            origin={"file": origin.file, "row": line},
        )
    except ValueError as problem:
        raise BadRow(str(problem)) from None
    origin.used.add(case_id)
    return Converted(case)
