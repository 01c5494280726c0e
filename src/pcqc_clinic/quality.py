"""How good the questions of a consultation are, by the clinic's exact posterior."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.posterior import SAME, Values, posterior
from clinic_env.world import World, asked_findings, read_findings
from pcqc.cases.case import Case

EARLY = 3  # answered questions of a consultation by which a validation is judged


@dataclass(frozen=True)
class AskedQuestion:
    """One question of a consultation, compared with the others that could be asked there.

    Attributes:
        turn: from 1.
        best: it names one finding, not asked before, and as the last question none is worth more.
        chance: share of best findings among those not asked before.
        regret: points of accuracy that a best question would have added beyond this one, if it is
            the last question. A question about several findings counts as naming none.
        loss: the same by Q*: best questions follow as long as the turns last.
        repeated: it names only findings that were asked before.
        unanswerable: the facts state nothing that it names.
        misquoted: the patient's answer differs from what the facts say about what it names.
        diagnosis: chance that the Bayes diagnosis on the answers up to this one is right.
    """

    turn: int
    best: bool
    chance: float
    regret: float
    loss: float
    repeated: bool
    unanswerable: bool
    misquoted: bool
    diagnosis: float


def judge_questions(values: Values, case: Case, dialogue: dict, most: int) -> list[AskedQuestion]:
    """Every question of a dialogue that was answered, in order.

    Args:
        values: exact values of the clinic's questions.
        case: the dialogue's.
        dialogue: a row of the evaluation's dialogues.
        most: questions that a consultation can have answered.
    """
    world = values.world
    facts = read_findings(world, " ".join(case.facts))
    answered: dict[int, bool] = {}
    asked: set[int] = set()
    judged = []
    turns = [turn for turn in dialogue["turns"] if turn["action"] == "question"]
    answers = [(turn, turn["answer"]) for turn in turns if turn["answer"] is not None]
    for number, (turn, answer) in enumerate(answers, start=1):
        named = asked_findings(world, turn["question"])
        silent, left = asked - answered.keys(), max(1, most - number + 1)
        last, optimal = (values(case, answered, silent, questions) for questions in (1, left))
        unasked = [f for f in last if f not in asked]
        best = {f for f in unasked if last[f] > max(last.values()) - SAME}
        stated = read_findings(world, answer)
        truth = {f: facts[f] for f in named if f in facts}
        repeated = bool(named) and named <= asked
        asked |= named
        answered |= stated
        judged.append(
            AskedQuestion(
                turn=number,
                best=len(named) == 1 and named <= best,
                chance=len(best) / len(unasked) if unasked else 1.0,
                regret=_regret(last, named),
                loss=_regret(optimal, named),
                repeated=repeated,
                unanswerable=not truth,
                misquoted=stated != truth,
                diagnosis=diagnosis(world, case, answered, values.rates),
            )
        )
    return judged


def _regret(values: dict[int, float], named: set[int]) -> float:
    """Points below a best question; a question that names no finding, or several, adds nothing."""
    own = values[min(named)] if len(named) == 1 else min(values.values())
    return 100 * (max(values.values()) - own)


def diagnosis(
    world: World, case: Case, answered: dict[int, bool], rates: np.ndarray | None = None
) -> float:
    """Chance that the Bayes diagnosis on these answers is right; ties are broken at random."""
    probability = posterior(world, case, answered, rates)
    likeliest = probability.max()
    top = likeliest - probability <= 1e-8 + 1e-9 * likeliest  # as np.isclose, which takes longer
    return float(top[list(case.options).index(case.answer)] / top.sum())


def summary(questions: Sequence[AskedQuestion]) -> dict[str, float]:
    """Means over the questions: shares, and regret and loss in points; empty without questions."""
    if not questions:
        return {}
    names = ("best", "chance", "regret", "loss", "repeated", "unanswerable", "misquoted")
    return {
        name: float(np.mean([getattr(question, name) for question in questions])) for name in names
    }


def early_questions(values: Values, case: Case, dialogue: dict) -> list[AskedQuestion]:
    """The first `EARLY` answered questions of a dialogue, each as if it were the last."""
    answered = [turn for turn in dialogue["turns"] if turn["answer"] is not None]
    return judge_questions(values, case, {"turns": answered[:EARLY]}, most=1)


def early_quality(
    values: Values, cases: Sequence[Case], dialogues: Sequence[dict]
) -> dict[str, float]:
    """How good the first questions of consultations are.

    Args:
        values: exact values of the clinic's questions.
        cases: one for each dialogue.
        dialogues: rows of an evaluation's dialogues.

    Returns:
        `best_questions` and `repeated_questions`, shares among each consultation's first `EARLY`
        answered questions; empty where no question was answered.
    """
    asked: list[AskedQuestion] = []
    for case, dialogue in zip(cases, dialogues, strict=True):
        asked += early_questions(values, case, dialogue)
    if not asked:
        return {}
    means = summary(asked)
    return {"best_questions": means["best"], "repeated_questions": means["repeated"]}
