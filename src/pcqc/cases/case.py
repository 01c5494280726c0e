"""A case with all that is known about it, read from and written to JSONL."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pcqc.cases.public_case import PublicCase
from pcqc_base.errors import UserError, one_line
from pcqc_base.system.files import read_jsonl, write_jsonl


@dataclass(frozen=True)
class Case:
    """A case with its privileged part.

    Attributes:
        case_id: unique and stable within its source.
        source: where the case comes from (`clinic`, `medqa`, ...).
        initial: the initial patient information; empty where the source has none.
        question: the clinical decision question.
        options: label -> option text, in the order in which they are shown.
        facts: atomic patient facts z, as their source words them, its numbers included; some
            published cases have none.
        answer: label of the correct option y*.
        origin: file and row that the case was read from.
    """

    case_id: str
    source: str
    initial: str
    question: str
    options: dict[str, str]
    facts: tuple[str, ...]
    answer: str
    origin: dict[str, str | int] = field(default_factory=dict)

    def __post_init__(self):
        if problem := _problem(self):
            raise ValueError(problem)

    @property
    def public(self) -> PublicCase:
        """The part that actor and scorer may see (tab:pipeline_visibility)."""
        return PublicCase(self.case_id, self.initial, self.question, dict(self.options))

    @property
    def consultable(self) -> bool:
        """Whether a consultation can be held: there is something to begin with and to answer."""
        return _unready(self) is None


_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that show nothing


def is_blank(text: str) -> bool:
    """Whether a reader sees nothing of a text: no letter, digit, sign or symbol."""
    return not any(unicodedata.category(c)[0] in "LNPS" and c not in _FILLERS for c in text)


# A final answer can only name such a label (`pcqc.cases.prompts.parse_action`).
_LABEL = re.compile(r"[A-Za-z0-9]+")


def _problem(case: Case) -> str | None:
    """What is wrong with the case, or None."""
    for name in ("initial", "case_id", "source", "question", "answer"):
        value = getattr(case, name)
        if not isinstance(value, str) or (is_blank(value) and name != "initial"):
            return f"'{name}' must be a {'' if name == 'initial' else 'non-empty '}string"
    for name in ("case_id", "source"):
        if not getattr(case, name).isprintable():
            return f"'{name}' must be one line of printable characters"
    if not isinstance(case.options, dict) or len(case.options) < 2:
        return "'options' must hold at least two labelled options"
    for label, text in case.options.items():
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            return f"the label '{label}' must consist of letters and digits alone"
        if not isinstance(text, str) or is_blank(text):
            return f"option '{label}' must be a non-empty string"
    if case.answer not in case.options:
        return f"answer '{case.answer}' is not one of the options {'/'.join(case.options)}"
    if not all(isinstance(fact, str) and not is_blank(fact) for fact in case.facts):
        return "'facts' must be non-empty strings"
    if not isinstance(case.origin, dict) or any(
        isinstance(value, bool) or not isinstance(value, str | int)
        for value in case.origin.values()
    ):
        return "'origin' must be an object of strings and whole numbers"
    return None


def _unready(case: Case) -> str | None:
    """Why no consultation can be held on a valid case, or None."""
    if not case.facts:
        return "there are no facts, so no question could be answered"
    if is_blank(case.initial):
        return "'initial' must be a non-empty string"
    return None


_FIELDS = set(Case.__dataclass_fields__)


def read_cases(path: Path, as_published: bool = False) -> list[Case]:
    """Read cases from JSONL.

    Args:
        path: the file.
        as_published: accept cases without facts or initial information too, on which no
            consultation can be held.

    Raises:
        UserError: a row that is no valid case, or a duplicate id; names file and line.
    """
    cases: list[Case] = []
    seen: dict[str, int] = {}
    for line, row in read_jsonl(path):
        where = f"{path}, line {line}"
        if unknown := set(row) - _FIELDS:
            name = one_line(min(unknown))
            raise UserError(f"{where}: unknown field '{name}' in a case; remove it")
        if missing := _FIELDS - {"origin"} - set(row):
            raise UserError(f"{where}: a case needs the field '{min(missing)}'; add it")
        if not isinstance(row["facts"], list):
            raise UserError(f"{where}: 'facts' must be a list of strings; fix the row")
        try:
            case = Case(**{**row, "facts": tuple(row["facts"])})
        except ValueError as error:
            raise UserError(f"{where}: {one_line(str(error))}; fix or remove the row") from None
        if not as_published and (problem := _unready(case)):
            raise UserError(f"{where}: {problem}; fix or remove the row")
        if case.case_id in seen:
            first = seen[case.case_id]
            raise UserError(
                f"{where}: duplicate case id '{case.case_id}', first in line {first}; rename or "
                "remove one"
            )
        seen[case.case_id] = line
        cases.append(case)
    if not cases:
        raise UserError(f"{path}: holds no cases; rerun the data rule or name another file")
    return cases


def write_cases(path: Path, cases: Iterable[Case]) -> None:
    """Write cases as JSONL, whole or not at all."""
    write_jsonl(path, (asdict(case) for case in cases))
