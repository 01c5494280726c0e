"""Training of one method in one cell: the repository's credit, on linear policies."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from credit_lab.map.policy import (
    Adam,
    push_answer,
    push_choice,
    push_question,
    see,
    untrained,
)
from credit_lab.map.rollouts import Rollouts, Streams, roll_out
from credit_lab.map.settings import Cell, Map
from credit_lab.map.simulated import SimulatedClinic, choose
from credit_lab.parts import Parts
from pcqc.methods.credit import same_state_credit, terminal_advantages
from pcqc.methods.pcqc import Pcqc
from pcqc.study import Method


@dataclass
class Trained:
    """Runs of one method.

    Attributes:
        accuracy: of each budget, percent right; float [budgets, R]. The first is 0: untrained.
        bayes: the same of the Bayes diagnosis on the answers that the policy got.
        asked: questions of a consultation, likewise.
        updates: int [budgets, R], until the budget was spent.
    """

    accuracy: np.ndarray
    bayes: np.ndarray
    asked: np.ndarray
    updates: np.ndarray


def full_cost(turns: int, cases: int, method: Method) -> int:
    """Cost of an update whose consultations all ask to the end.

    A consultation has a response and an answer a turn, and a response at the end; a supervised
    state G_Q - 1 more responses and answers, and G_Q + 1 readings.
    """
    group = method.question_group if isinstance(method, Pcqc) else 1
    compared = turns * (2 * (group - 1) + group + 1) if group > 1 else 0
    return cases * (method.terminal_group * (2 * turns + 1) + compared)


def budgets(settings: Map, cell: Cell, pcqc: Pcqc) -> list[int]:
    """Cost of each budget in a cell: of so many full updates of PCQC with the centre's G_Q."""
    usual = dataclasses.replace(pcqc, question_group=settings.centre.question_group)
    one = full_cost(cell.turns, settings.training.cases, usual)
    return [updates * one for updates in settings.training.budgets]


def train(
    settings: Map, cell: Cell, method: Method, name: str, rate: float, costs: Sequence[int]
) -> Trained:
    """Train `settings.runs` policies until each has spent the last budget.

    Args:
        settings: of the map.
        cell: where.
        method: group sizes and beta.
        name: of the method; cases are the same for all, the other draws are each method's own.
        rate: of learning.
        costs: budgets of each run, ascending.
    """
    clinic, runs = SimulatedClinic(cell), settings.runs
    policy = untrained(cell, runs, settings.training.chance_to_answer)
    adam = Adam(policy, rate)
    cases, draws = (Streams(settings.seed, runs, *n) for n in (("cases",), ("draws", name)))
    spent = np.zeros(runs, int)
    kept = [policy.copy() for _ in (0, *costs)]
    updates = np.zeros((len(kept), runs), int)
    while (learning := spent < costs[-1]).any():
        batch = roll_out(
            clinic,
            policy,
            cases.patients(clinic, settings.training.cases),
            method.terminal_group,
            method.question_group if isinstance(method, Pcqc) else 1,
            draws,
        )
        adam.step(method_gradient(policy, batch, method), learning)
        for number, cost in enumerate(costs, start=1):
            _take(kept[number], policy, spent < cost)
            updates[number] += spent < cost
        spent += batch.cost * learning
    judged = np.stack([judge(settings, clinic, one) for one in kept], axis=1)
    return Trained(judged[0], judged[1], judged[2], updates)


def method_gradient(policy: Parts, batch: Rollouts, method: Method) -> Parts:
    """Terminal term plus beta times the question term, each divided by its own tokens.

    That is minus the gradient of eq:pcqc_objective at ratio 1, without the KL penalty.
    """
    found = terminal_gradient(policy, batch, method.terminal_group)
    if not isinstance(method, Pcqc):
        return found
    question = question_gradient(policy, batch, method.terminal_group)
    return found.plus(method.beta, question)


def terminal_gradient(policy: Parts, batch: Rollouts, group: int) -> Parts:
    """All tokens of a consultation with its advantage among its case's; a response has two.

    The answer that is demanded at the end has one: nobody chose to give it.
    """
    runs, count = batch.reward.shape
    rewards = batch.reward.reshape(-1, group)
    credit = np.array([terminal_advantages(row) for row in rewards]).reshape(runs, count)
    found, tokens = policy.zeros(), np.zeros(runs)
    for turn in batch.turns:
        asks, answers = turn.here & ~turn.answers, turn.answers
        if turn.chosen:
            push_choice(found, turn.seen, answers, credit * turn.here)
            push_question(found, turn.seen, turn.finding, credit * asks)
        push_answer(found, turn.seen, turn.named, credit * answers)
        tokens += (1 + turn.chosen) * turn.here.sum(1)
    return _divided(found, tokens)


def question_gradient(policy: Parts, batch: Rollouts, group: int) -> Parts:
    """Question tokens of all candidates of supervised states (eq:question_objective)."""
    found, tokens = policy.zeros(), np.zeros(len(batch.reward))
    for turn in batch.turns:
        if (compared := turn.candidates) is None:
            continue
        credit = np.zeros_like(compared.utility)
        for run, case in np.argwhere(compared.supervised):
            credit[run, case] = same_state_credit(compared.utility[run, case])
        asked = compared.asks & compared.supervised[..., None]
        first = turn.seen.every(group)
        for k in range(credit.shape[-1]):
            push_question(found, first, compared.finding[..., k], (credit * asked)[..., k])
        tokens += asked.sum((1, 2))
    return _divided(found, tokens)


def judge(
    settings: Map, clinic: SimulatedClinic, policy: Parts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Percent right of policies, of Bayes on the same answers, and questions asked; each [R].

    Questions are sampled; the final answer counts with its exact chance to be right. Patients and
    draws of a run are the same for all methods.
    """
    runs = settings.runs
    draws = Streams(settings.seed, runs, "evaluation")
    patients = draws.patients(clinic, settings.training.evaluated)
    weight, asked = clinic.opening(patients)
    here = np.ones(patients.option.shape, bool)
    right, best, questions = (np.zeros_like(weight[..., 0]) for _ in range(3))
    for number in range(clinic.cell.turns + 1):
        seen = see(policy, weight, asked, number / clinic.cell.turns)
        u = draws.uniform(settings.training.evaluated, 3)
        answers = here & ((number == clinic.cell.turns) | (u[..., 0] < seen.answering))
        right += answers * (seen.answers * seen.posterior).sum(-1)
        best += answers * seen.posterior.max(-1)
        here = here & ~answers
        questions += here
        finding = choose(seen.questions, u[..., 1])
        heard = clinic.answer(patients, finding, u[..., 2])
        weight, asked = clinic.learn(weight, asked, finding, heard, here)
    return 100 * right.mean(1), 100 * best.mean(1), questions.mean(1)


def _divided(gradient: Parts, tokens: np.ndarray) -> Parts:
    share = 1 / np.maximum(tokens, 1)[:, None, None]
    return Parts(*(part * share for part in gradient))


def _take(kept: Parts, policy: Parts, where: np.ndarray) -> None:
    """Copy the parameters of some runs, bool [R]."""
    for own, new in zip(kept, policy, strict=True):
        own[where] = new[where]
