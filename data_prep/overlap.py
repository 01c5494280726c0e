"""Finds evaluation cases that overlap with training data: equal in full, or in part, or similar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.lexical import CHARACTERS, WORDS, near_duplicates
from data_prep.parts import plain, problem
from data_prep.rows import BadRow
from data_prep.user_message import OPTIONS, Opening, read_opening
from pcqc.cases.case import read_cases
from pcqc.cases.sft_rows import read_sft_rows
from pcqc_base.system.files import read_jsonl

MEASURES = (CHARACTERS, WORDS)
KINDS = ("full_prompt", "case_and_problem", *(measure.name for measure in MEASURES))


@dataclass(frozen=True)
class Prompt:
    """The first prompt, as `plain` has it, of a case or an SFT row.

    Attributes:
        set: name of the set that it belongs to.
        id: the case's or row's.
        full: initial information, question and options.
        problem: initial information and question.
    """

    set: str
    id: str
    full: str
    problem: str


@dataclass(frozen=True)
class Pair:
    """An evaluation and a training prompt that overlap.

    Attributes:
        evaluation, training: the prompts.
        cosines: measure -> cosine, if it reaches the measure's threshold.
    """

    evaluation: Prompt
    training: Prompt
    cosines: Mapping[str, float]

    @property
    def kinds(self) -> set[str]:
        """Those of `full_prompt`, `case_and_problem` and the measures that apply."""
        exact = {
            "full_prompt": self.evaluation.full == self.training.full,
            "case_and_problem": self.evaluation.problem == self.training.problem,
        }
        return {kind for kind, applies in exact.items() if applies} | set(self.cosines)


def read_prompts(name: str, path: Path) -> list[Prompt]:
    """Prompts of a file of cases or of SFT rows; each consultation of SFT rows once.

    Raises UserError for a file that holds neither.
    """
    _, first = next(read_jsonl(path), (0, {}))
    if "messages" not in first:
        cases = read_cases(path, as_published=True)
        openings = {c.case_id: Opening(c.initial, c.question, c.options) for c in cases}
        return [_prompt(name, key, opening) for key, opening in openings.items()]
    messages: dict[str, str] = {}
    for row in read_sft_rows(path):
        messages.setdefault(row.messages[1]["content"], row.id)
    return [_message_prompt(name, key, text) for text, key in messages.items()]


def _prompt(name: str, key: str, opening: Opening) -> Prompt:
    told = problem(opening.initial, opening.question)
    options = [f"{label}: {text.strip()}" for label, text in opening.options.items()]
    return Prompt(name, key, plain(" ".join([told, *options])), told)


def _message_prompt(name: str, key: str, text: str) -> Prompt:
    """The prompt of a user message; a message of another form is compared as a whole."""
    try:
        return _prompt(name, key, read_opening(text))
    except BadRow:
        return Prompt(name, key, plain(text), plain(text.split(OPTIONS)[0]))


def find_overlap(evaluation: Sequence[Prompt], training: Sequence[Prompt]) -> list[Pair]:
    """Every pair equal in full or similar by one of the measures, in order of the prompts.

    Of an evaluation prompt's pairs that are equal in case and problem alone, the first in each
    training set: prompts of few openings, as the clinic's, would make millions.
    """
    near: dict[tuple[int, int], dict[str, float]] = {}
    whole: dict[str, list[int]] = {}
    first: dict[str, dict[str, int]] = {}
    for j, prompt in enumerate(training):
        whole.setdefault(prompt.full, []).append(j)
        first.setdefault(prompt.problem, {}).setdefault(prompt.set, j)
    for i, prompt in enumerate(evaluation):
        for j in (*whole.get(prompt.full, ()), *first.get(prompt.problem, {}).values()):
            near[i, j] = {}
    texts = [prompt.full for prompt in evaluation], [prompt.full for prompt in training]
    for measure in MEASURES:
        for pair, cosine in near_duplicates(*texts, measure).items():
            near.setdefault(pair, {})[measure.name] = cosine
    return [Pair(evaluation[i], training[j], near[i, j]) for i, j in sorted(near)]
