"""The expected answer where the world is not known: the patient imagines what it might be."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pcqc.cases.prompts import Exchange
from pcqc.cases.public_case import PublicCase
from pcqc.consultation import RolloutContext
from pcqc.engines.base import Failure
from pcqc.methods.beliefs import actor_beliefs
from pcqc.methods.question_utilities import Firsts, Judged, Name, Utility, group_by, states_of
from pcqc.roles import Scorer
from pcqc.roles.patient import Inquiry
from pcqc.system.seeds import generator, stream


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


def by_imagined_answers(scorer: Scorer, count: int) -> Utility:
    """The expected probability of the correct option, over answers that the patient imagines.

    An option is drawn from the actor's belief; the patient, told nothing but this diagnosis,
    answers; the scorer reads the answer and gives that option a probability. The utility is the
    mean over `count` such answers, the same options for all candidates of a state. Where the world
    is known, `clinic.expected` has it exactly.
    """

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        places = states_of(firsts)
        guesses = list(_guesses(context, firsts, places, count, name))
        values = _values(context, scorer, guesses)
        sizes = [len(firsts[i][1].turns[number].responses) for i, number in places]
        ends = count * np.cumsum(sizes)[:-1]
        rows = np.split(values, ends) if places else []
        return Judged(group_by(firsts, places, [r.reshape(-1, count).mean(axis=1) for r in rows]))

    return judge


def _guesses(
    context: RolloutContext, firsts: Firsts, places: list[tuple[int, int]], count: int, name: Name
) -> Iterator[_Guess]:
    """`count` of each candidate of each state, in order."""
    beliefs = actor_beliefs(context, [consultation for _, consultation in firsts])
    for i, number in places:
        case, consultation = firsts[i]
        turn, place = consultation.turns[number], ("imagined", case.case_id, number)
        belief = beliefs[i][number]
        rng = generator(name.seed, name.stage, *place)
        options = rng.choice(len(belief), count, p=belief)
        for k, response in enumerate(turn.responses):
            for n, option in enumerate(options):
                draw = stream(name.seed, name.stage, *place, k, n)
                question = response.action.question
                yield _Guess(case.public, turn.exchanges, question, int(option), draw)


def _values(context: RolloutContext, scorer: Scorer, guesses: list[_Guess]) -> np.ndarray:
    """float [guesses] probability of each guess's option; NaN where a served role failed."""
    with context.timed("patient"):
        said = iter(context.patient.answer([g.inquiry for g in guesses if g.question]))
    answers = [next(said) if guess.question else None for guess in guesses]
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
