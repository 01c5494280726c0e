"""What candidate questions are compared by: the paper's scorer, or another judge of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcqc.cases import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.engines.base import Failure
from pcqc.methods.beliefs import actor_beliefs
from pcqc.methods.continuations import after_candidates, continue_all
from pcqc.methods.question_groups import QuestionGroup, score_groups, supervised_states
from pcqc.protocol import Exchange
from pcqc.roles import Scorer
from pcqc.roles.patient import Inquiry
from pcqc.seeds import generator, stream

Firsts = Sequence[tuple[Case, Consultation]]


class Name(NamedTuple):
    """Of the random streams of an update."""

    seed: int
    stage: str


@dataclass(frozen=True)
class Judged:
    """Candidate groups with utilities.

    Attributes:
        groups: one list per consultation; a state that could not be judged has none.
        consultations: complete ones that were played for it.
        sampled_tokens: of the actor in them.
    """

    groups: list[list[QuestionGroup]]
    consultations: int = 0
    sampled_tokens: int = 0


# Judges the candidates of consultations.
Utility = Callable[[RolloutContext, Firsts, Name], Judged]


def by_scorer(scorer: Scorer) -> Utility:
    """u_i of eq:diagnostic_utility."""

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        with context.timed("scorer"):
            return Judged(score_groups(scorer, firsts))

    return judge


def by_continuations(count: int) -> Utility:
    """Mean reward of `count` consultations that go on from each candidate; C3."""

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        places = [(i, n) for i, (_, c) in enumerate(firsts) for n, _ in supervised_states(c)]
        every = [after_candidates(context, *firsts[i], number) for i, number in places]
        found = continue_all(context, [d for row in every for d in row], count, **name._asdict())
        ends = np.cumsum([len(row) for row in every])[:-1]
        groups: list[list[QuestionGroup]] = [[] for _ in firsts]
        for (i, number), values in zip(places, np.split(found.values, ends), strict=True):
            if not np.isnan(values).any():
                case, consultation = firsts[i]
                groups[i].append(_group(case, consultation, number, float(values.mean()), values))
        return Judged(groups, found.consultations, found.sampled_tokens)

    return judge


def by_imagined_answers(scorer: Scorer, count: int) -> Utility:
    """The expected probability of the correct option, over answers that the patient imagines.

    An option is drawn from the actor's belief; the patient, told nothing but this diagnosis,
    answers; the scorer reads the answer and gives that option a probability. The utility is the
    mean over `count` such answers. Where the world is known, `clinic.expected` has it exactly.
    """

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        beliefs = iter(actor_beliefs(context, [c for _, c in firsts]))
        places = []
        for i, ((case, consultation), belief) in enumerate(zip(firsts, beliefs, strict=True)):
            for number, _ in supervised_states(consultation):
                rng = generator(name.seed, name.stage, "imagined", case.case_id, number)
                drawn = rng.choice(len(belief[number]), count, p=belief[number])
                places.append((i, number, drawn))
        return Judged(_imagined(context, scorer, firsts, places, name))

    return judge


def _imagined(context, scorer: Scorer, firsts: Firsts, places, name: Name):
    """Groups of the states at `places`: consultation, turn, and the options drawn there."""
    inquiries, evidence = [], []
    for i, number, drawn in places:
        case, consultation = firsts[i]
        texts = list(case.options.values())
        for k, response in enumerate(consultation.turns[number].responses):
            for n, option in enumerate(drawn):
                draw = stream(name.seed, name.stage, "imagined", case.case_id, number, k, n)
                question = response.action.question
                if question:
                    fact = f"The diagnosis is {texts[option]}."
                    inquiries.append(Inquiry((fact,), question, draw))
    answers = iter(context.patient.answer(inquiries))
    for i, number, drawn in places:
        case, consultation = firsts[i]
        turn = consultation.turns[number]
        for response in turn.responses:
            for _ in drawn:
                said = next(answers) if response.action.question else None
                more = () if said is None or isinstance(said, Failure) else (said,)
                exchanges = tuple(Exchange(response.action.question, one) for one in more)
                evidence.append((case.public, (*turn.exchanges, *exchanges)))
    with context.timed("scorer"):
        read = iter(scorer.probabilities(evidence))
    groups: list[list[QuestionGroup]] = [[] for _ in firsts]
    for i, number, drawn in places:
        case, consultation = firsts[i]
        scored = [
            float(one[option])
            for _ in consultation.turns[number].responses
            for one, option in zip([next(read) for _ in drawn], drawn, strict=True)
            if not isinstance(one, Failure)
        ]
        if len(scored) == len(drawn) * len(consultation.turns[number].responses):
            values = np.array(scored).reshape(-1, len(drawn)).mean(axis=1)
            groups[i].append(_group(case, consultation, number, float(values.mean()), values))
    return groups


def _group(case, consultation, number: int, baseline: float, values: np.ndarray) -> QuestionGroup:
    turn = consultation.turns[number]
    return QuestionGroup(case, number, turn, baseline, values, np.zeros(len(values)))
