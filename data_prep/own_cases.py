"""Cases in the project's own format, such as a benchmark of one's own."""

from typing import Any

from data_prep.parts import leaks, plain, strip_numbering
from data_prep.rows import BadRow, Converted, Origin, take, take_text, take_texts
from pcqc.cases.case import Case, is_blank

NAME = "cases"
FIELDS = {"case_id", "source", "initial", "question", "options", "facts", "answer"}
READ = FIELDS | {"origin"}  # which a case that we wrote has, and which is told anew


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row, its texts and its id unchanged; `origin` is this file. Raises BadRow."""
    initial = take(row, "initial", str)
    try:
        case = Case(
            case_id=take_text(row, "case_id"),
            source=take_text(row, "source"),
            initial="" if is_blank(initial) else initial,
            question=take_text(row, "question"),
            options=take(row, "options", dict),
            facts=tuple(take_texts(row, "facts")),
            answer=take_text(row, "answer"),
            origin={"file": origin.file, "row": line},
        )
    except ValueError as problem:
        raise BadRow(str(problem)) from None
    check_different(case.options)
    strip_numbering(list(case.facts))  # refuses a number without a fact
    origin.claim(case.case_id)
    return Converted(case, tuple(leaks(case)))


def check_different(options: dict[str, str]) -> None:
    """BadRow if two options have the same text to a reader."""
    seen: dict[str, str] = {}
    for label, text in options.items():
        first = seen.setdefault(plain(text), label)
        if first != label:
            raise BadRow(f"options '{first}' and '{label}' have the same text")
