"""What each method would credit at one state: its candidate questions, and answering at once."""

from collections.abc import Sequence

import numpy as np

from credit_lab.quality.states import Played, State
from turn_credit import Group, credit_update
from turn_credit.arithmetic import leave_one_out, same_state_credit, terminal_advantages

# Methods that credit questions alone; whether to ask or to answer is left to the reward.
QUESTIONS = ("pcqc", "executed_local", "c3", "expected_answer", "imagined_answers")
# Methods that credit turns.
TURNS = ("grpo", "igpo", "igpo_scorer", "tips", "vineppo", "gigpo", "mt_grpo")
# Method -> its turn credit, and whose belief it reads.
READS = {
    "igpo": ("igpo", "actor"),
    "igpo_scorer": ("igpo", "scorer"),
    "tips": ("tips", "scorer"),
    "gigpo": ("gigpo", "scorer"),
    "mt_grpo": ("mt_grpo", "scorer"),
}


def question_credits(state: State, draw: int, expected: Sequence[float]) -> dict[str, np.ndarray]:
    """Credit of each candidate, float [K], by each method.

    A method of `TURNS` sees K consultations that have come to the state, each goes on from one
    candidate; VinePPO's values are means over the other continuations.

    Args:
        state: the state.
        draw: which continuation of each candidate is the consultation.
        expected: each candidate's expected probability of the correct option.
    """
    rewards = np.array([[played.reward for played in row] for row in state.paths])
    others = np.delete(rewards, draw, axis=1)
    return {
        "pcqc": same_state_credit(state.group.gains),
        # Standardised across an update: within a state the gains themselves, up to a factor.
        "executed_local": state.group.gains,
        "c3": leave_one_out(rewards[:, draw]),
        "expected_answer": same_state_credit(np.array(expected)),
        "imagined_answers": same_state_credit(state.imagined),
        **turn_credits([row[draw] for row in state.paths], state.number),
        "vineppo": others.mean(axis=1) - others.mean(),
    }


def asking_credits(state: State, draw: int) -> dict[str, float]:
    """Credit of asking, mean over the candidates, less that of answering at once, by `TURNS`.

    The group has one more consultation, which ends at the state.
    """
    consultations = [*(row[draw] for row in state.paths), state.answer]
    credits = turn_credits(consultations, state.number)
    rewards = [played.reward for row in state.paths for played in row]
    # V(s') of asking is the mean over continuations, of answering its reward: V(s) cancels.
    asking = [float(np.mean(rewards))] * len(state.paths)
    credits["vineppo"] = np.array([*asking, state.answer.reward])
    return {name: float(row[:-1].mean()) - float(row[-1]) for name, row in credits.items()}


def turn_credits(consultations: Sequence[Played], turn: int) -> dict[str, np.ndarray]:
    """Credit of one turn of each consultation of a case, by methods that credit turns."""
    rewards = np.array([played.reward for played in consultations])
    states = [played.states for played in consultations]
    credits = {"grpo": terminal_advantages(rewards)}
    for name, (credit, reader) in READS.items():
        beliefs = [getattr(played, reader) for played in consultations]
        (rows,) = credit_update(credit, [Group(rewards, states=states, beliefs=beliefs)])
        credits[name] = np.array([row[turn] for row in rows])
    return credits
