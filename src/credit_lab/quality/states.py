"""States on which credits are compared: a policy's, with candidate questions played to the end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext, Turn, require_answers, roll_out
from pcqc.methods.beliefs import actor_beliefs, scorer_beliefs
from pcqc.methods.continuations import after_candidates, continue_each
from pcqc.methods.expected_answer import imagine
from pcqc.methods.question_groups import QuestionGroup, score_groups
from pcqc.methods.reward import correctness
from pcqc.roles import Scorer
from pcqc.study.study import CreditQuality
from pcqc.system.progress import Phases

STAGE = "credit quality"


@dataclass(frozen=True)
class Played:
    """A consultation in the numbers that credits read.

    Attributes:
        reward: 1 if it ended with the correct diagnosis, else 0.
        scorer: float [turns], the scorer's probability of the correct option before each turn.
        actor: the same of the actor itself.
        states: the exchanges before each turn.
    """

    reward: float
    scorer: np.ndarray
    actor: np.ndarray
    states: list[frozenset]


@dataclass(frozen=True)
class State:
    """A state and its candidate questions.

    Attributes:
        case: of the state.
        number: of the turn, from 0.
        turn: exchanges so far and candidates, each an answered question.
        group: the candidates with their utilities.
        imagined: float [candidates], their utilities by answers that the patient imagines.
        paths: [candidates][continuations].
        label: the actor's likeliest option.
        answer: the consultation that ends at the state with this label.
    """

    case: Case
    number: int
    turn: Turn
    group: QuestionGroup
    imagined: np.ndarray
    paths: list[list[Played]]
    label: str
    answer: Played


def draw_states(
    context: RolloutContext,
    scorer: Scorer,
    cases: Sequence[Case],
    settings: CreditQuality,
    phases: Phases,
) -> list[State]:
    """Draw states, candidates and continuations.

    One consultation of each case is played. A state is taken where it asks at one of
    `settings.turns` (from 1), all candidates are questions, and each leaves tokens to go on.

    Args:
        context: roles and rules.
        scorer: frozen.
        cases: to play.
        settings: how much is drawn; the seed names every draw.
        phases: takes the time of each part.
    """
    seed, count = settings.seed, settings.candidates
    with phases.time("candidates"):
        rolled = roll_out(context, cases, rollouts=1, candidates=count, seed=seed, stage=STAGE)
    require_answers(c for row in rolled for c in row)
    firsts = [(case, row[0]) for case, row in zip(cases, rolled, strict=True)]
    with phases.time("utilities"):
        scored = score_groups(scorer, firsts)
    with phases.time("imagined answers"):
        judged = imagine(context, scorer, firsts, settings.imagined_answers, seed=seed, stage=STAGE)
    imagined = {(g.case.case_id, g.number): g.utilities for row in judged for g in row}
    groups, dialogues = [], []
    for (case, consultation), of_case in zip(firsts, scored, strict=True):
        for group in of_case:
            asked = group.number + 1 in settings.turns and group.turn.all_ask(count)
            if not asked or (case.case_id, group.number) not in imagined:
                continue
            after = after_candidates(context, case, consultation, group.number)
            if all(dialogue.consultation.ending is None for dialogue in after):
                groups.append(group)
                dialogues += after
    with phases.time("continuations"):
        played = continue_each(context, dialogues, settings.continuations, seed=seed, stage=STAGE)
    every = [consultation for row in played for consultation in row]
    require_answers(every)
    with phases.time("scorer's beliefs"):
        by_scorer = scorer_beliefs(scorer, every)
    with phases.time("actor's beliefs"):
        by_actor = actor_beliefs(context, every)
    known = zip(every, by_scorer, by_actor, strict=True)
    states = []
    for group in groups:
        rows = [[next(known) for _ in range(settings.continuations)] for _ in range(count)]
        case, number = group.case, group.number
        paths = [[_played(case, *consultation) for consultation in row] for row in rows]
        label = case.public.labels[int(rows[0][0][2][number].argmax())]
        # All paths share the turns before the state.
        shared, turns = paths[0][0], slice(number + 1)
        answer = Played(
            float(label == case.answer),
            shared.scorer[turns],
            shared.actor[turns],
            shared.states[turns],
        )
        values = imagined[case.case_id, number]
        states.append(State(case, number, group.turn, group, values, paths, label, answer))
    return states


def _played(case: Case, played: Consultation, scorer: np.ndarray, actor: np.ndarray) -> Played:
    """A consultation; `scorer` and `actor` are beliefs, float [turns, options]."""
    answer = case.public.labels.index(case.answer)
    states = [frozenset(turn.exchanges) for turn in played.turns]
    return Played(correctness(case, played), scorer[:, answer], actor[:, answer], states)
