"""Training of one method in one cell: the repository's credit, on linear policies."""

import dataclasses
from typing import cast

import numpy as np

from credit_lab.map.policy import Adam, pushed, pushed_choice, untrained
from credit_lab.map.rollouts import Rollouts, Streams, roll_out
from credit_lab.map.settings import Cell, Map
from credit_lab.map.simulated import SimulatedClinic
from credit_lab.parts import Parts
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.study import load_study
from turn_credit.arithmetic import same_state_credit, terminal_advantages


def method_with(name: str, question_group: int) -> Grpo:
    """A method of the paper's study, with another G_Q if it has candidates."""
    method = cast(Grpo, load_study("paper").methods[name])
    if isinstance(method, Pcqc):
        return dataclasses.replace(method, question_group=question_group)
    return method


def candidates(method: Grpo) -> int:
    """Responses at each state of a case's first consultation."""
    return method.question_group if isinstance(method, Pcqc) else 1


def full_cost(turns: int, cases: int, method: Grpo) -> int:
    """Cost of an update whose consultations all ask to the end.

    A consultation has a response and an answer a turn, and a response at the end; a supervised
    state G_Q - 1 more responses and answers, and G_Q + 1 readings.
    """
    group = candidates(method)
    compared = turns * (2 * (group - 1) + group + 1) if group > 1 else 0
    return cases * (method.terminal_group * (2 * turns + 1) + compared)


def budgets(settings: Map, cell: Cell) -> list[int]:
    """Cost of each budget in a cell: of so many full updates of PCQC with the centre's G_Q."""
    pcqc = method_with("pcqc", settings.centre.question_group)
    cost = full_cost(cell.turns, settings.training.cases, pcqc)
    return [updates * cost for updates in settings.training.budgets]


def train(settings: Map, cell: Cell, name: str, rate: float) -> dict[str, np.ndarray]:
    """Train `settings.runs` policies until each has spent the last budget.

    Args:
        settings: of the map.
        cell: where.
        name: of the method; cases are the same for all, the other draws are each method's own.
        rate: of learning.

    Returns:
        `accuracy`, percent right; `bayes`, the same of the Bayes diagnosis on the answers that the
        policy got; `asked`, questions of a consultation; `updates`, int, until the budget was
        spent. Each [1 + budgets, R]; the first row is before training.
    """
    method, costs = method_with(name, cell.question_group), budgets(settings, cell)
    clinic, runs = SimulatedClinic(cell), settings.runs
    policy = untrained(cell, runs, settings.training.chance_to_answer)
    adam = Adam(policy, rate)
    cases, draws = (
        Streams(settings.seed, runs, "cases"),
        Streams(settings.seed, runs, "draws", name),
    )
    spent = np.zeros(runs, int)
    kept = [policy.copy() for _ in (0, *costs)]
    updates = np.zeros((len(kept), runs), int)
    while (learning := spent < costs[-1]).any():
        patients = cases.patients(clinic, settings.training.cases)
        batch = roll_out(clinic, policy, patients, method.terminal_group, candidates(method), draws)
        adam.step(method_gradient(policy, batch, method), learning)
        for number, cost in enumerate(costs, start=1):
            for old, new in zip(kept[number], policy, strict=True):
                old[spent < cost] = new[spent < cost]
            updates[number] += spent < cost
        spent += batch.cost * learning
    accuracy, bayes, asked = np.stack([judge(settings, clinic, old) for old in kept], axis=1)
    return {"accuracy": accuracy, "bayes": bayes, "asked": asked, "updates": updates}


def method_gradient(policy: Parts, batch: Rollouts, method: Grpo) -> Parts:
    """Terminal term plus beta times the question term, each divided by its own tokens.

    That is minus the gradient of eq:pcqc_objective at ratio 1, without the KL penalty.
    """
    terminal = terminal_gradient(policy, batch, method.terminal_group)
    if not isinstance(method, Pcqc):
        return terminal
    return terminal.plus(method.beta, question_gradient(policy, batch, method.terminal_group))


def terminal_gradient(policy: Parts, batch: Rollouts, group: int) -> Parts:
    """All tokens of a consultation with its advantage among its case's; a response has two.

    The answer that is demanded at the end has one: nobody chose to give it.
    """
    rewards = batch.reward.reshape(-1, group)
    credit = np.array([terminal_advantages(row) for row in rewards]).reshape(batch.reward.shape)
    gradient, tokens = policy.zeros(), np.zeros(len(credit))
    for turn in batch.turns:
        seen, answers = turn.seen, turn.answers
        if turn.chosen:
            asking = credit * (turn.here & ~answers)
            gradient.choice += pushed_choice(seen, answers, credit * turn.here)
            gradient.question += pushed(seen.questions, seen.question, turn.finding, asking)
        gradient.answer += pushed(seen.answers, seen.answer, turn.named, credit * answers)
        tokens += (1 + turn.chosen) * turn.here.sum(1)
    return _divided(gradient, tokens)


def question_gradient(policy: Parts, batch: Rollouts, group: int) -> Parts:
    """Question tokens of all candidates of supervised states (eq:question_objective)."""
    gradient, tokens = policy.zeros(), np.zeros(len(batch.reward))
    for turn in batch.turns:
        if (compared := turn.candidates) is None:
            continue
        credit = np.zeros_like(compared.utility)
        for run, case in np.argwhere(compared.supervised):
            credit[run, case] = same_state_credit(compared.utility[run, case])
        asked = compared.asks & compared.supervised[..., None]
        first = turn.seen.every(group)
        for k in range(credit.shape[-1]):
            finding, push = compared.finding[..., k], (credit * asked)[..., k]
            gradient.question += pushed(first.questions, first.question, finding, push)
        tokens += asked.sum((1, 2))
    return _divided(gradient, tokens)


def _divided(gradient: Parts, tokens: np.ndarray) -> Parts:
    """By each run's number of tokens, [R]."""
    return gradient.times(1 / np.maximum(tokens, 1)[:, None, None])


def judge(settings: Map, clinic: SimulatedClinic, policy: Parts) -> np.ndarray:
    """Percent right of policies, of Bayes on the same answers, and questions asked: float [3, R].

    Questions are sampled; the final answer counts with its exact chance to be right. Patients and
    draws of a run are the same for all methods.
    """
    draws = Streams(settings.seed, settings.runs, "evaluation")
    patients = draws.patients(clinic, settings.training.evaluated)
    batch = roll_out(clinic, policy, patients, 1, 1, draws)
    right, best, asked = (np.zeros_like(batch.reward) for _ in range(3))
    for turn in batch.turns:
        right += turn.answers * (turn.seen.answers * turn.seen.posterior).sum(-1)
        best += turn.answers * turn.seen.posterior.max(-1)
        asked += turn.here & ~turn.answers
    return np.array([100 * right.mean(1), 100 * best.mean(1), asked.mean(1)])
