"""What each method would credit at one state: its candidate questions, and answering at once."""

from collections.abc import Sequence

import numpy as np

from credit_lab.quality.alternatives import Alternatives, Path
from pcqc.methods import peer_credit
from pcqc.methods.credit import same_state_credit, terminal_advantages
from pcqc.methods.turn_credit import CREDITS, Known

# Methods that credit questions alone; whether to ask or to answer is left to the reward.
QUESTIONS = ("pcqc", "executed_local", "c3", "expected_answer", "imagined_answers")
# Method -> its turn credit, and whose belief it reads.
READS = {
    "igpo": ("igpo", "actor"),
    "igpo_scorer": ("igpo", "scorer"),
    "tips": ("tips", "scorer"),
    "gigpo": ("gigpo", "scorer"),
    "mt_grpo": ("mt_grpo", "scorer"),
}
TURNS = ("grpo", "igpo", "igpo_scorer", "tips", "vineppo", "gigpo", "mt_grpo")


def question_credits(
    found: Alternatives, draw: int, expected: Sequence[float]
) -> dict[str, np.ndarray]:
    """Credit of each candidate, float [K], by each method.

    A method of `TURNS` sees K consultations that have come to the state, each goes on from one
    candidate; VinePPO's values are means over the other continuations.

    Args:
        found: the state.
        draw: which continuation of each candidate is the consultation.
        expected: each candidate's expected probability of the correct option.
    """
    rewards = np.array([[path.reward for path in row] for row in found.paths])
    others = [np.delete(row, draw) for row in rewards]
    values = np.array([row.mean() for row in others])
    paths = [row[draw] for row in found.paths]
    return {
        "pcqc": same_state_credit(found.group.gains),
        # Standardised across an update: within a state the gains themselves, up to a factor.
        "executed_local": found.group.gains,
        "c3": peer_credit.leave_one_out(rewards[:, draw]),
        "expected_answer": same_state_credit(np.array(expected)),
        "imagined_answers": same_state_credit(found.imagined),
        **turn_credits(paths, found.number),
        "vineppo": values - np.concatenate(others).mean(),
    }


def turn_credits(paths: Sequence[Path], turn: int) -> dict[str, np.ndarray]:
    """Credit of one turn of each consultation of a case, by methods that credit turns."""
    rewards, states = np.array([path.reward for path in paths]), [path.states for path in paths]
    found = {"grpo": terminal_advantages(rewards)}
    for name, (credit, reader) in READS.items():
        beliefs = [getattr(path, reader) for path in paths]
        (rows,) = CREDITS[credit]([Known(rewards, states, beliefs, [])])
        found[name] = np.array([row[turn] for row in rows])
    return found


def asking_credits(found: Alternatives, draw: int) -> dict[str, tuple[float, float]]:
    """Credit of asking, mean over the candidates, and of answering at once, by each method.

    The group has one more consultation, which ends at the state.
    """
    paths = [*(row[draw] for row in found.paths), found.answer]
    credits = turn_credits(paths, found.number)
    asked = [path.reward for row in found.paths for path in row]
    # V(s') of asking is the mean over continuations, of answering its reward: V(s) cancels.
    credits["vineppo"] = np.array(
        [*[float(np.mean(asked))] * len(found.paths), found.answer.reward]
    )
    return {name: (float(row[:-1].mean()), float(row[-1])) for name, row in credits.items()}
