"""The expected answer: a question's utility averaged over the answers that it might get.

Samples: as PCQC, and `imagined_answers` answers of the patient to each candidate.
Credits: as PCQC, by the expected probability of the correct option; no label is read. In the clinic
the expectation is known exactly (`imagined_answers: 0`).
Trains on: as PCQC.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange
from pcqc.cases.public_case import PublicCase
from pcqc.consultation import RolloutContext, Turn
from pcqc.engines.base import Failure
from pcqc.methods.base import Services, World
from pcqc.methods.beliefs import actor_beliefs
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import (
    Firsts,
    Judged,
    QuestionGroup,
    groups_of_values,
    states_of,
    supervised_states,
)
from pcqc.roles import Scorer
from pcqc.roles.patient import Inquiry
from pcqc.study.yaml_reader import STRICT, Whole
from pcqc.system.seeds import generator, stream
from turn_credit.arithmetic import expected_probability


@settings(frozen=True, config=STRICT)
class ExpectedAnswer(Pcqc):
    """See the module."""

    imagined_answers: Whole = 4  # per question; 0: exact, which only the clinic can have

    scorer_during_rollouts: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """See `Method.needs`; without imagined answers the world takes the scorer's place."""
        return super().needs if self.imagined_answers else super().needs - {"scorer"} | {"world"}

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """Expected probability of the correct option: see `imagine` and `exact_group`."""
        count, seed = self.imagined_answers, services.seed
        if count:
            return Judged(imagine(context, services.scorer, firsts, count, seed=seed, stage=stage))
        exact = [
            [exact_group(services.world, case, n, turn) for n, turn in supervised_states(first)]
            for case, first in firsts
        ]
        return Judged(exact)

    compared: ClassVar[str] = (
        "questions are compared with the other candidates at the same state by what the answers "
        "that it might get are worth"
    )
    utility: ClassVar[str] = (
        "Over the answers that this question might get, the correct option's probability is "
        "{utility:.3f} on average (the utility); it is compared with {before:.3f}."
    )
    no_question: ClassVar[str] = utility


def exact_group(world: World, case: Case, number: int, turn: Turn) -> QuestionGroup:
    """The candidates of a state; a question that says nothing leaves the belief as it is."""
    belief = world.belief(case, turn)
    values = [
        expected_probability(belief, world.answers(case, turn, response.action.question))
        for response in turn.responses
    ]
    baseline = expected_probability(belief, world.answers(case, turn, None))
    return QuestionGroup(case, number, turn, baseline, np.array(values))


def imagine(
    context: RolloutContext, scorer: Scorer, firsts: Firsts, count: int, *, seed: int, stage: str
) -> list[list[QuestionGroup]]:
    """Candidates by the expected probability of the correct option, over imagined answers.

    An option is drawn from the actor's belief; the patient, told nothing but this diagnosis,
    answers; the scorer reads the answer and gives that option a probability. The utility is the
    mean over `count` such answers, the same options for all candidates of a state.

    Args:
        context, scorer: roles and rules.
        firsts: consultations with candidates.
        count: imagined answers of each candidate.
        seed, stage: names of the random streams.

    Returns:
        One list of groups per consultation; a state at which a served role failed has none.
    """
    places = states_of(firsts)
    guesses = list(_guesses(context, firsts, places, count, seed, stage))
    values = _values(context, scorer, guesses)
    sizes = [len(firsts[i][1].turns[number].responses) for i, number in places]
    rows = np.split(values, count * np.cumsum(sizes)[:-1]) if places else []
    return groups_of_values(firsts, places, [row.reshape(-1, count).mean(axis=1) for row in rows])


@dataclass(frozen=True)
class _Guess:
    """One imagined course: a candidate's question to a patient with a guessed diagnosis."""

    case: PublicCase
    exchanges: tuple[Exchange, ...]
    question: str | None
    option: int
    stream: int

    @property
    def inquiry(self) -> Inquiry:
        """What the patient gets: nothing but the diagnosis."""
        name = list(self.case.options.values())[self.option]
        return Inquiry((f"The diagnosis is {name}.",), self.question or "", self.stream)


def _guesses(
    context: RolloutContext,
    firsts: Firsts,
    places: list[tuple[int, int]],
    count: int,
    seed: int,
    stage: str,
) -> Iterator[_Guess]:
    """`count` of each candidate of each state, in order."""
    beliefs = actor_beliefs(context, [consultation for _, consultation in firsts])
    for i, number in places:
        case, consultation = firsts[i]
        turn, place = consultation.turns[number], ("imagined", case.case_id, number)
        belief = beliefs[i][number]
        options = generator(seed, stage, *place).choice(len(belief), count, p=belief)
        for k, response in enumerate(turn.responses):
            for n, option in enumerate(options):
                draw = stream(seed, stage, *place, k, n)
                question = response.action.question
                yield _Guess(case.public, turn.exchanges, question, int(option), draw)


def _values(context: RolloutContext, scorer: Scorer, guesses: list[_Guess]) -> np.ndarray:
    """float [guesses] probability of each guess's option; NaN where a served role failed."""
    with context.timed("patient"):
        answered = iter(context.patient.answer([g.inquiry for g in guesses if g.question]))
    answers = [next(answered) if guess.question else None for guess in guesses]
    evidence = []
    for guess, answer in zip(guesses, answers, strict=True):
        asked = () if not isinstance(answer, str) else (Exchange(guess.question, answer),)
        evidence.append((guess.case, (*guess.exchanges, *asked)))
    with context.timed("scorer"):
        read = scorer.probabilities(evidence)
    return np.array(
        [
            np.nan if isinstance(answer, Failure) or isinstance(row, Failure) else row[guess.option]
            for guess, answer, row in zip(guesses, answers, read, strict=True)
        ]
    )
