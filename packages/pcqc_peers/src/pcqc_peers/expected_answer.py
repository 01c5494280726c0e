"""The expected answer: a question's utility averaged over the answers that it might get.

Samples: as PCQC, and `imagined_answers` answers of the patient to each candidate: the patient model
imagines them without facts or, in the clinic, answers from the facts of another such patient.
Credits: as PCQC, by the expected probability of the correct option; no label is read. In the clinic
the expectation is known exactly (`imagined_answers: 0`).
Trains on: as PCQC.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange, imagining_prompt
from pcqc.cases.public_case import PublicCase
from pcqc.consultation import RolloutContext, Turn
from pcqc.engines.base import Failure
from pcqc.methods.base import Services, World
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
from pcqc.seeds import generator, stream
from pcqc_base.settings.types import STRICT, Whole
from pcqc_peers.beliefs import actor_beliefs
from turn_credit.arithmetic import expected_probability


@settings(frozen=True, config=STRICT)
class ExpectedAnswer(Pcqc):
    """Settings of the expected answer and its judgement; it samples and trains as PCQC."""

    imagined_answers: Whole = 4  # per question; 0: exact, which only the clinic can have
    # whose they are: the patient model's without facts or, in the clinic, from facts of another
    # patient for whom the guessed option is right
    imagined_from: Literal["nothing", "world"] = "nothing"

    scorer_during_rollouts: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent; without imagined answers the world, not the scorer."""
        if not self.imagined_answers:
            return super().needs - {"scorer"} | {"world"}
        return super().needs | ({"world"} if self.imagined_from == "world" else set())

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """Expected probability of the correct option: see `imagine` and `exact_group`."""
        if self.imagined_answers:
            world = services.world if self.imagined_from == "world" else None
            count, scorer = self.imagined_answers, services.scorer
            assert scorer is not None
            seed = services.seed
            return Judged(
                imagine(context, scorer, firsts, count, world=world, seed=seed, stage=stage)
            )
        exact = [
            [exact_group(services.world, case, n, turn) for n, turn in supervised_states(first)]
            for case, first in firsts
        ]
        return Judged(exact)


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
    context: RolloutContext,
    scorer: Scorer,
    firsts: Firsts,
    count: int,
    *,
    world: World | None = None,
    seed: int,
    stage: str,
) -> list[list[QuestionGroup]]:
    """Candidates by the expected probability of the correct option, over imagined answers.

    An option is drawn from the actor's belief; a patient for whom it is right answers; the scorer
    reads the answer and gives that option a probability. The utility is the mean over `count` such
    answers: a Monte-Carlo estimate of `expected_probability`. All candidates of a state get the
    same options and, of a world, the same patients.

    Args:
        context, scorer: roles and rules.
        firsts: consultations with candidates.
        count: imagined answers of each candidate.
        world: has the facts from which the patient answers; without one it imagines them.
        seed, stage: names of the random streams.

    Returns:
        One list of groups per consultation; a state at which a served role failed has none.
    """
    places = states_of(firsts)
    guesses = list(_guesses(context, firsts, places, count, world, seed, stage))
    values = _values(context, scorer, guesses)
    sizes = [len(firsts[i][1].turns[number].responses) for i, number in places]
    rows = np.split(values, count * np.cumsum(sizes)[:-1]) if places else []
    return groups_of_values(firsts, places, [row.reshape(-1, count).mean(axis=1) for row in rows])


@dataclass(frozen=True)
class _Guess:
    """One imagined course: a candidate's question to a patient with a guessed diagnosis.

    Attributes:
        facts: that patient's; None where the patient model imagines them.
    """

    case: PublicCase
    exchanges: tuple[Exchange, ...]
    question: str | None
    option: int
    stream: int
    facts: tuple[str, ...] | None

    @property
    def inquiry(self) -> Inquiry:
        """What the patient gets: facts or, without them, the case and the diagnosis."""
        question = self.question or ""
        if self.facts is not None:
            return Inquiry(self.facts, question, self.stream)
        name = list(self.case.options.values())[self.option]
        prompt = imagining_prompt(self.case, self.exchanges, name, question)
        return Inquiry((), question, self.stream, prompt)


def _guesses(
    context: RolloutContext,
    firsts: Firsts,
    places: list[tuple[int, int]],
    count: int,
    world: World | None,
    seed: int,
    stage: str,
) -> Iterator[_Guess]:
    """`count` of each candidate of each state, in order."""
    beliefs = actor_beliefs(context, [consultation for _, consultation in firsts])
    for i, number in places:
        case, consultation = firsts[i]
        turn, place = consultation.turns[number], ("imagined", case.case_id, number)
        belief = beliefs[i][number]
        rng = generator(seed, stage, *place)
        options = [int(option) for option in rng.choice(len(belief), count, p=belief)]
        facts = [world.facts(case, turn, option, rng) if world else None for option in options]
        for k, response in enumerate(turn.responses):
            for n, option in enumerate(options):
                draw = stream(seed, stage, *place, k, n)
                question = response.action.question
                yield _Guess(case.public, turn.exchanges, question, option, draw, facts[n])


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
