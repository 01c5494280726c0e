"""Questions that could be asked at one state, each played on to the end: what credits compare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext, Turn, require_answers, roll_out
from pcqc.methods.beliefs import actor_beliefs, scorer_beliefs
from pcqc.methods.continuations import after_candidates, continue_each
from pcqc.methods.imagined_answers import by_imagined_answers
from pcqc.methods.question_groups import QuestionGroup, score_groups
from pcqc.methods.question_utilities import Name
from pcqc.methods.reward import correctness
from pcqc.roles import Scorer
from pcqc.system.progress import Phases

STAGE = "credit quality"


@dataclass(frozen=True)
class Path:
    """A consultation in the numbers that credits read.

    Attributes:
        reward: 1 if it ended with the correct diagnosis, else 0.
        scorer: float [turns], the scorer's probability of the correct option before each turn.
        actor: the same of the actor itself.
        states: what had been said before each turn.
    """

    reward: float
    scorer: np.ndarray
    actor: np.ndarray
    states: list[frozenset]


@dataclass(frozen=True)
class Alternatives:
    """The candidate questions of one state.

    Attributes:
        case: of the state.
        number: of the turn, from 0.
        turn: state and candidates, each an answered question.
        group: the candidates with their utilities.
        imagined: float [candidates], their utilities by answers that the patient imagines.
        paths: [candidates][continuations].
        label: the actor's likeliest option.
        answer: the consultation that ends here with it.
    """

    case: Case
    number: int
    turn: Turn
    group: QuestionGroup
    imagined: np.ndarray
    paths: list[list[Path]]
    label: str
    answer: Path


def draw_alternatives(
    context: RolloutContext,
    scorer: Scorer,
    cases: Sequence[Case],
    *,
    turns: Sequence[int],
    candidates: int,
    continuations: int,
    imagined_answers: int,
    seed: int,
    phases: Phases,
) -> list[Alternatives]:
    """Draw states, candidates and what comes of each.

    A state is taken where a consultation of the case asks at one of `turns` (from 1), and all its
    candidates are questions.

    Args:
        context: roles and rules.
        scorer: frozen.
        cases: one consultation each.
        turns: at which states are taken.
        candidates: questions of each.
        continuations: of each question.
        imagined_answers: to each question.
        seed: names every draw.
        phases: takes the time of each part.
    """
    with phases.time("candidates"):
        rolled = roll_out(context, cases, rollouts=1, candidates=candidates, seed=seed, stage=STAGE)
    require_answers(c for row in rolled for c in row)
    firsts = [(case, row[0]) for case, row in zip(cases, rolled, strict=True)]
    with phases.time("utilities"):
        scored = score_groups(scorer, firsts)
    with phases.time("imagined answers"):
        judged = by_imagined_answers(scorer, imagined_answers)(context, firsts, Name(seed, STAGE))
    imagined = {(g.case.case_id, g.number): g.utilities for row in judged.groups for g in row}
    groups = [
        group
        for found in scored
        for group in found
        if group.number + 1 in turns
        and group.turn.all_ask(candidates)
        and (group.case.case_id, group.number) in imagined
    ]
    by_id = {case.case_id: consultation for case, consultation in firsts}
    after = [
        after_candidates(context, group.case, by_id[group.case.case_id], group.number)
        for group in groups
    ]
    # Where a question used up the last tokens, nothing can be compared.
    open_ones = [all(d.consultation.ending is None for d in row) for row in after]
    groups = [group for group, is_open in zip(groups, open_ones, strict=True) if is_open]
    dialogues = [d for row, is_open in zip(after, open_ones, strict=True) if is_open for d in row]
    with phases.time("continuations"):
        played = continue_each(context, dialogues, continuations, seed=seed, stage=STAGE)
    require_answers(c for row in played for c in row)
    every = [consultation for row in played for consultation in row]
    with phases.time("scorer's beliefs"):
        by_scorer = scorer_beliefs(scorer, every)
    with phases.time("actor's beliefs"):
        by_actor = actor_beliefs(context, every)
    known = zip(every, by_scorer, by_actor, strict=True)
    return list(_alternatives(groups, imagined, played, candidates, known))


def _alternatives(
    groups: Sequence[QuestionGroup],
    imagined: dict[tuple[str, int], np.ndarray],
    played: Sequence[list[Consultation]],
    candidates: int,
    known: Iterator[tuple[Consultation, np.ndarray, np.ndarray]],
) -> Iterator[Alternatives]:
    for place, group in enumerate(groups):
        rows = played[place * candidates : (place + 1) * candidates]
        read = [[next(known) for _ in row] for row in rows]
        paths = [[_path(group.case, *one) for one in row] for row in read]
        first, _, beliefs = read[0][0]
        label = first.case.labels[int(beliefs[group.number].argmax())]
        until, before = paths[0][0], group.number + 1
        answer = Path(
            float(label == group.case.answer),
            until.scorer[:before],
            until.actor[:before],
            until.states[:before],
        )
        values = imagined[group.case.case_id, group.number]
        yield Alternatives(
            group.case, group.number, group.turn, group, values, paths, label, answer
        )


def _path(case: Case, played: Consultation, scorer: np.ndarray, actor: np.ndarray) -> Path:
    answer = case.public.labels.index(case.answer)
    states = [frozenset(turn.exchanges) for turn in played.turns]
    return Path(correctness(case, played), scorer[:, answer], actor[:, answer], states)
