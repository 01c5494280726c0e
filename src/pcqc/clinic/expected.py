"""The expected probability of the correct option after a question, exact in the clinic."""

from collections.abc import Collection
from itertools import product

import numpy as np

from pcqc.cases.case import Case
from pcqc.clinic.posterior import likelihoods, posterior
from pcqc.clinic.world import World, asked_findings, read_findings
from pcqc.consultation import RolloutContext, Turn
from pcqc.methods.peer_credit import expected_probability
from pcqc.methods.question_groups import QuestionGroup, supervised_states
from pcqc.methods.question_utilities import Firsts, Judged, Name, Utility


def by_expected_answer(world: World) -> Utility:
    """See `expected_probability`; a question that says nothing leaves the belief as it is."""

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        return Judged(
            [
                [_group(world, case, number, turn) for number, turn in supervised_states(first)]
                for case, first in firsts
            ]
        )

    return judge


def _group(world: World, case: Case, number: int, turn: Turn) -> QuestionGroup:
    known, everything = heard(world, turn)
    belief = posterior(world, case, known)
    questions = [response.action.question or "" for response in turn.responses]
    new = [asked_findings(world, question) - everything for question in questions]
    values = [expected_probability(belief, answers_to(world, case, found)) for found in new]
    baseline = expected_probability(belief, answers_to(world, case, ()))
    return QuestionGroup(case, number, turn, baseline, np.array(values), np.zeros(len(values)))


def heard(world: World, turn: Turn) -> tuple[dict[int, bool], set[int]]:
    """Findings that had been answered before a turn, and those that had been asked about."""
    said = " ".join(exchange.answer for exchange in turn.exchanges)
    asked = [asked_findings(world, exchange.question) for exchange in turn.exchanges]
    return read_findings(world, said), set().union(*asked)


def answers_to(world: World, case: Case, findings: Collection[int]) -> np.ndarray:
    """[answers, options] P(answer | option) of every answer about some findings at once."""
    table = likelihoods(world, case)[:, sorted(findings)]
    return np.array(
        [
            np.prod(np.where(present, table, 1 - table), axis=1)
            for present in product((True, False), repeat=len(findings))
        ]
    )
