"""Checks of options, answer and facts that all published formats share."""

import re
import unicodedata
from hashlib import sha256
from string import ascii_uppercase
from typing import Any

from data_prep.rows import BadRow, Conflict, Converted, Origin, check_text
from pcqc.cases.case import Case

QUESTION = "What is the most likely diagnosis?"
OTHERS = 4  # diagnoses beside the correct one, where a row has no options
NO_FACTS = "no facts: the patient can answer nothing"
SPACES = "the answer's text differs from its option only in spaces, case or signs that look alike"
SYNONYM = "the answer's text is not an option's; its label decides"
TWINS = "another option has the same text as the answer's"
TOLD = "the answer's text stands in what the doctor is told"
KNOWN = "the answer's text stands in a fact"
REPEATED = "another case has the same prompt"


def make_case(
    origin: Origin,
    line: int,
    case: dict[str, Any],
    facts: list[str],
    answer_text: str,
    *,
    system: str | None = None,
    form: str = "",
    **more: str,
) -> Converted:
    """A case from its fields, its facts as published, and its answer's text.

    Args:
        origin, line: where the row is.
        case: id, initial information, question, options and answer.
        facts: the patient's.
        answer_text: the row's; its label may name another option.
        system, form: see `Converted`.
        more: what the case's origin says beside file and row.

    Raises:
        BadRow: a field does not fit a case.
        Conflict: the answer's text is another option's.
    """
    labels = list(case["options"])
    if len(labels) < 2 or "".join(labels) != ascii_uppercase[: len(labels)]:
        raise BadRow(
            "options must be labelled A/B/C/... in order, two or more; found "
            f"{'/'.join(labels) or 'none'}"
        )
    strip_numbering(facts)  # refuses a number without a fact
    where: dict[str, str | int] = {"file": origin.file, "row": line, **more}
    try:
        made = Case(**case, source=origin.source, facts=tuple(facts), origin=where)
    except ValueError as problem:
        raise BadRow(str(problem)) from None
    notes = [*compare_answer(made, answer_text), *leaks(made)]
    if not facts:
        notes.append(NO_FACTS)
    return Converted(made, tuple(notes), system, form)


def open_case(
    origin: Origin, line: int, initial: str, facts: list[str], diagnosis: str
) -> Converted:
    """The case of a row that has a diagnosis alone; its options are in alphabetical order.

    The others are diagnoses of the file's other rows, the same whenever it is converted; one of
    them may be a near synonym. Raises BadRow where all rows have the same diagnosis.
    """
    case_id = origin.identify(line, line)
    others = {plain(text): text for text in sorted(origin.diagnoses)}
    others.pop(plain(diagnosis), None)
    if not others:
        raise BadRow("no other row has another diagnosis to choose from")
    rank = {text: sha256(f"{case_id}\n{text}".encode()).digest() for text in others.values()}
    texts = sorted([diagnosis, *sorted(rank, key=rank.__getitem__)[:OTHERS]])
    case = {
        "case_id": case_id,
        "initial": initial,
        "question": QUESTION,
        "options": dict(zip(ascii_uppercase, texts, strict=False)),
        "answer": ascii_uppercase[texts.index(diagnosis)],
    }
    return make_case(origin, line, case, facts, diagnosis)


def compare_answer(case: Case, text: str) -> list[str]:
    """Notes on how the answer's text differs from the option of its label.

    Raises Conflict if the text is another option's: nobody can tell which of them is correct.
    """
    options, label = case.options, case.answer
    texts = {key: plain(option) for key, option in options.items()}
    others = [key for key in options if key != label and texts[key] == plain(text)]
    if texts[label] == plain(text):
        return [SPACES] * (text != options[label]) + [TWINS] * bool(others)
    if others:
        raise Conflict(
            case.case_id,
            f"the answer's text '{text}' is option {others[0]}, its label names option {label} "
            f"('{options[label]}')",
        )
    return [SYNONYM]


def leaks(case: Case) -> list[str]:
    """Notes on where the answer's text stands word for word, or in the plural.

    A number alone is no text.
    """
    answer = plain(case.options[case.answer])
    if not any(map(str.isalpha, answer)):
        return []
    words = re.compile(rf"(?<!\w){re.escape(answer)}(e?s)?(?!\w)")
    told, facts = [case.initial, case.question], strip_numbering(list(case.facts))[0]
    places = {TOLD: told, KNOWN: facts}
    return [note for note, texts in places.items() if any(map(words.search, map(plain, texts)))]


def problem(initial: str, question: str) -> str:
    """What the doctor is told beside the options, for comparisons."""
    return plain(f"{initial} {question}")


_ALIKE = str.maketrans(
    dict.fromkeys("‘’‛ʼʹ′´`", "'") | dict.fromkeys("“”„‟″", '"') | dict.fromkeys("‐‑‒–—―−", "-")
)


def plain(text: str) -> str:
    """A text as a reader compares it: without differences that cannot be seen, or hardly.

    These are case, spaces, Unicode form (NFKC), quotes and dashes of several kinds, and characters
    that show nothing. A superscript stays: 10² is not 102.
    """
    text = unicodedata.normalize("NFC", text.translate(_ALIKE))
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_shown, text))
    folded = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", " ".join(folded.split()))


def _shown(character: str) -> str:
    """A character in its compatible form; empty if it shows nothing."""
    if unicodedata.decomposition(character).startswith("<super>"):
        return character
    if unicodedata.category(character) in ("Cc", "Cf") and not character.isspace():
        return ""
    return unicodedata.normalize("NFKC", character)


def strip_numbering(facts: list[str]) -> tuple[list[str], int]:
    """Facts without the source's numbers, and how many had one.

    A number is a leading `k. ` that continues the count: `1. `, then `2. `, and so on. Anything
    else stays: items of a list between numbered facts, or a fact that starts with another number.

    Raises BadRow for a number without a fact.
    """
    stripped, numbered = [], 0
    for fact in facts:
        match = re.match(rf"{numbered + 1}\. ", fact)
        if match:
            numbered += 1
        stripped.append(check_text(fact[match.end() if match else 0 :], f"fact '{fact}'"))
    return stripped, numbered
