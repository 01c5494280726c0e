"""Parts of a published case that every source states in its own way: options, answer, facts."""

import re
from string import ascii_uppercase
from typing import Any

from data_prep.real.rows import BadRow, Conflict, Converted, check_text
from pcqc.cases import Case

NO_FACTS = "no facts: the patient can answer nothing"
NUMBERED_IN_PART = "facts without a number of their own keep their text"
SPACES = "the answer's text differs from its option in spaces or case alone"
SYNONYM = "the answer's text is no option's; the option that its label names is taken"
TWINS = "another option has the same text as the answer's"


def make_case(case: dict[str, Any], facts: list[str], answer_text: str) -> Converted:
    """A case from its fields, its facts as the source gives them, and its answer's text.

    Raises:
        BadRow: a field is not as a case needs it.
        Conflict: the answer's text is another option's.
    """
    options, label = case["options"], case["answer"]
    check_options(options)
    if label not in options:
        raise BadRow(f"answer '{label}' is not one of the options {'/'.join(options)}")
    notes = compare_answer(case["case_id"], options, label, answer_text)
    texts, numbered = strip_numbering(facts)
    if numbered:
        case["origin"]["numbering"] = numbered
    if not facts:
        notes.append(NO_FACTS)
    elif numbered < len(facts):
        notes.append(NUMBERED_IN_PART)
    return Converted(Case(**case, facts=tuple(texts)), tuple(notes))


def check_options(options: dict[str, Any]) -> None:
    """Two or more non-empty texts, labelled A, B, C and so on; else BadRow."""
    labels = "".join(options)
    if len(options) < 2 or labels != ascii_uppercase[: len(options)]:
        found = "/".join(options) or "none"
        raise BadRow(f"options must be labelled A/B/C/... in order, two or more; found {found}")
    for label, text in options.items():
        check_text(text, f"option '{label}'")


def compare_answer(case_id: str, options: dict[str, str], label: str, text: str) -> list[str]:
    """Notes on how the answer's text agrees with the option that its label names.

    Raises Conflict where it is another option's: nobody can tell which of them was meant.
    """
    plain = {key: _plain(option) for key, option in options.items()}
    others = [key for key in options if key != label and plain[key] == _plain(text)]
    if plain[label] == _plain(text):
        return [SPACES] * (text != options[label]) + [TWINS] * bool(others)
    if others:
        raise Conflict(
            case_id,
            f"the answer's text '{text}' is option {others[0]}, its label names option {label} "
            f"('{options[label]}')",
        )
    return [SYNONYM]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def strip_numbering(facts: list[str]) -> tuple[list[str], int]:
    """Facts without the source's numbers, and how many bore one.

    A number is a leading `k. ` that counts on from the facts before: `1. `, then `2. `, and so on.
    What stands between numbered facts, as the items of a list of values do, stays as it is, and so
    does a fact that starts with a number of its own.

    Raises BadRow where nothing stands behind a number.
    """
    stripped, numbered = [], 0
    for fact in facts:
        match = re.match(rf"{numbered + 1}\. ", fact)
        if match:
            numbered += 1
        stripped.append(check_text(fact[match.end() if match else 0 :], f"fact '{fact}'"))
    return stripped, numbered
