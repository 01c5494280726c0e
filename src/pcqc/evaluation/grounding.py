"""Answer grounding: which candidate answers may count (app:compliant_continuation).

An answer is eligible where it is supported by the patient's facts, confined to what was asked, and
free of the decision's target. The judges must agree on it; a person's review overrides them.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.engines.base import Engine, Failure, Request, Sampling
from pcqc.seeds import stream
from pcqc_base.errors import UserError, one_line
from pcqc_base.system.files import of_cell, read_bytes

CRITERIA = ("supported", "confined", "free")
AGREEMENT, REVIEW = "agreement", "review"  # in place of a single judge's name
COLUMNS = ("case_id", "candidate", *CRITERIA, "eligible", "judge")
YES, NO = "yes", "no"


@dataclass(frozen=True)
class Judgement:
    """One answer, criterion by criterion; None where a judge cannot tell.

    Attributes:
        supported: the patient's facts say what the answer says.
        confined: it says nothing that was not asked.
        free: it does not disclose the decision's target.
        judge: its name.
    """

    supported: bool | None
    confined: bool | None
    free: bool | None
    judge: str

    @property
    def eligible(self) -> bool:
        """Whether all three hold; an open criterion does not, until a person decides it."""
        return all(getattr(self, name) is True for name in CRITERIA)


@dataclass(frozen=True)
class Answered:
    """What is judged: the case, its facts included, a question and the patient's answer."""

    case: Case
    question: str
    answer: str


class Judge(Protocol):
    """Says whether answers are grounded."""

    def judge(self, items: Sequence[Answered]) -> list[Judgement]:
        """One judgement per item."""


QUESTIONS = {
    "supported": "Is everything that the answer states also stated in the facts?",
    "confined": "Does the answer give only the information that the question asks for?",
    "free": "Is the answer free of any hint at which of the options is correct?",
}
# Two wordings of one task: a reply that both get does not depend on the wording.
JUDGE_PROMPTS = (
    "Patient facts:\n{facts}\nOptions: {options}\nQuestion: {question}\nAnswer: {answer}\n\n"
    "{criterion} Reply with yes or no.",
    "You review the answer of a simulated patient. {criterion}\n\nThe question was: {question}\n"
    "The answer was: {answer}\nThe patient's record holds only these facts:\n{facts}\n"
    "The doctor must choose among: {options}\n\nReply yes or no.",
)


class ModelJudge:
    """A language model behind any engine, asked every criterion in two wordings.

    A criterion is decided where both replies are the same yes or no; else it stays open.
    """

    def __init__(self, engine: Engine, chat: ChatFormat, name: str = "model"):
        self.engine, self.chat, self.name = engine, chat, name
        self.sampling = Sampling(temperature=0.0, top_p=1.0, max_tokens=8, stop=chat.ends)

    def judge(self, items: Sequence[Answered]) -> list[Judgement]:
        """One judgement per item: of each criterion what both wordings agree on, else None."""
        requests = [
            Request(self.chat.ask(self._prompt(prompt, item, criterion)), (stream(0, "judge"),))
            for item in items
            for criterion in CRITERIA
            for prompt in JUDGE_PROMPTS
        ]
        drawn = self.engine.generate(requests, self.sampling)
        if failures := [result for (result,) in drawn if isinstance(result, Failure)]:
            raise UserError(
                f"the judge's server failed {len(failures)} times ({failures[0]}); check the "
                "server and rerun"
            )
        replies = iter(drawn)
        return [
            Judgement(
                **{c: self._agreed(next(replies), next(replies)) for c in CRITERIA}, judge=self.name
            )
            for _ in items
        ]

    @staticmethod
    def _prompt(prompt: str, item: Answered, criterion: str) -> str:
        return prompt.format(
            facts="\n".join(item.case.facts),
            options=item.case.options,
            question=item.question,
            answer=item.answer,
            criterion=QUESTIONS[criterion],
        )

    def _agreed(self, *replies) -> bool | None:
        """What all replies say, yes (True) or no; None where they differ or say neither."""
        texts = (self.chat.decode(completion.tokens) for (completion,) in replies)
        words = {text.strip().strip(".").lower() for text in texts}
        return {YES: True, NO: False}.get(words.pop()) if len(words) == 1 else None


def agreed(votes: Mapping[str, Sequence[Judgement]]) -> list[Judgement]:
    """What all judges say of each answer, criterion by criterion; open where they differ.

    Args:
        votes: judge -> a judgement of every answer, in the same order.
    """
    if len(votes) == 1:
        return list(*votes.values())
    judgements = []
    for of_answer in zip(*votes.values(), strict=True):
        shared: dict[str, bool | None] = {}
        for name in CRITERIA:
            verdicts = {getattr(judgement, name) for judgement in of_answer}
            shared[name] = verdicts.pop() if len(verdicts) == 1 else None
        judgements.append(Judgement(**shared, judge=AGREEMENT))
    return judgements


def priority(judgement: Judgement, chosen: bool) -> int:
    """An answer's place in the review, 1 to 4: open ones first; among equals, those a rule chooses.

    Args:
        judgement: all judges' together.
        chosen: whether the candidate is the executed one or the one of highest utility, which the
            comparisons rest on.
    """
    is_open = any(getattr(judgement, name) is None for name in CRITERIA)
    return 1 + 2 * (not is_open) + (not chosen)


def reviewed(
    judgements: dict[tuple[str, int], Judgement], review: dict[tuple[str, int], dict[str, bool]]
) -> dict[tuple[str, int], Judgement]:
    """Judgements with a person's decisions in place of the judge's, criterion by criterion.

    Args:
        judgements: by case id and candidate.
        review: as `read_review` gives it.

    Raises:
        UserError: a review of a candidate that the study does not have.
    """
    if unknown := sorted(set(review) - set(judgements)):
        case_id, candidate = unknown[0]
        raise UserError(
            f"the review judges candidate {candidate} of case '{case_id}', which the study does "
            "not have; remove that row"
        )
    merged = dict(judgements)
    for key, decided in review.items():
        judged = {name: getattr(judgements[key], name) for name in CRITERIA}
        merged[key] = Judgement(**{**judged, **decided}, judge=REVIEW)
    return merged


def read_review(path: Path, method: str, run: str) -> dict[tuple[str, int], dict[str, bool]]:
    """A person's decisions on one policy's answers, from a CSV.

    Its columns are method, run, case_id, candidate, supported, confined and free. The last three
    are `yes`, `no`, or empty where the judges decide. Other columns are notes, and a row without a
    decision counts as not reviewed.

    Raises:
        UserError: an unreadable file, a missing column, another word or a candidate twice; names
            the line.
    """
    try:
        content = read_bytes(path).decode("utf-8-sig")  # as spreadsheets save it
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8; save the file in UTF-8") from None
    table = csv.DictReader(io.StringIO(content, newline=None), strict=True)
    rows: list[tuple[int, dict]] = []  # with the number of their last line
    try:
        needed = ("method", "run", "case_id", "candidate", *CRITERIA)
        if missing := [name for name in needed if name not in (table.fieldnames or ())]:
            known = ", ".join(needed)
            raise UserError(f"{path}: no column '{missing[0]}'; the columns are {known}")
        for row in table:
            rows.append((table.line_num, row))
    except csv.Error as error:
        where = f"{path}, after line {rows[-1][0] if rows else 1}"
        remedy = "close its double quotes, or save it as CSV again"
        raise UserError(f"{where}: no CSV ({error}); {remedy}") from None
    return _decisions(rows, path, (method, run))


def _decisions(
    rows: Sequence[tuple[int, dict]], path: Path, policy: tuple[str, str]
) -> dict[tuple[str, int], dict[str, bool]]:
    review: dict[tuple[str, int], dict[str, bool]] = {}
    for line, row in rows:
        if (row["method"], row["run"]) != policy:
            continue
        where = f"{path}, line {line}"
        if not re.fullmatch("[0-9]{1,9}", row["candidate"] or ""):
            given = one_line(repr(row["candidate"]), 40)
            raise UserError(f"{where}: candidate must be a whole number, not {given}")
        key = (of_cell(row["case_id"]), int(row["candidate"]))
        if key in review:
            raise UserError(f"{where}: judges {key[0]}, candidate {key[1]} again; keep one row")
        decided: dict[str, bool] = {}
        for name in CRITERIA:
            word = (row[name] or "").strip().lower()
            if word not in (YES, NO, ""):
                raise UserError(f"{where}: {name} must be yes, no or empty, not {row[name]!r}")
            if word:
                decided[name] = word == YES
        if decided:
            review[key] = decided
    return review
