"""From searched trees to what the actor and the critic train on, trajectory by trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.consultation import Consultation
from pcqc.credit.tree import advantages, back_up
from pcqc.methods.sequences import TrainingSequence, executed_sequences, lay_out
from pcqc.methods.tree_search import Search


@dataclass
class ValueSequence:
    """Token ids with the critic's targets at the tokens that end a state.

    Attributes:
        tokens: ids.
        targets: float [tokens], V_hat of the state; NaN where there is nothing to learn.
        old_values: float [tokens], the critic's outputs during the search; NaN likewise.
    """

    tokens: list[int]
    targets: np.ndarray
    old_values: np.ndarray

    @property
    def selected(self) -> np.ndarray:
        """bool [tokens], where there is a target."""
        return ~np.isnan(self.targets)


@dataclass
class Trajectory:
    """One completed consultation of a tree.

    Attributes:
        actor: its sequences; one, unless the history was changed on the way.
        critic: the same tokens with the critic's targets.
    """

    actor: list[TrainingSequence]
    critic: list[ValueSequence]


def trajectories(search: Search, by_visits: bool) -> list[Trajectory]:
    """All completed trajectories of a tree that the actor said something in.

    The actor's tokens of a trajectory weigh 1 together, whatever its length.

    Args:
        search: the searched tree.
        by_visits: whether advantages are divided by visits.
    """
    targets, scores = back_up(search.tree), advantages(search.tree, by_visits)
    found = []
    for consultation, path in search.trajectories:
        if not consultation.turns:
            continue
        share = 1 / consultation.actor_tokens
        actor = executed_sequences(consultation, [scores[i] for i in path[1:]], {}, share)
        states = [(targets[i], search.value_tokens[i]) for i in path[:-1]]
        found.append(Trajectory(actor, _critic_sequences(consultation, states)))
    return found


def _critic_sequences(
    consultation: Consultation, states: Sequence[tuple[float, np.ndarray]]
) -> list[ValueSequence]:
    """Sequences with V_hat and the old values where each turn's state ends."""
    sequences = []
    for laid in lay_out(consultation.executed):
        targets, old = np.full((2, len(laid.tokens)), np.nan)
        for number, start in laid.starts.items():
            target, outputs = states[number]
            targets[start - len(outputs) : start] = target
            old[start - len(outputs) : start] = outputs
        sequences.append(ValueSequence(laid.tokens, targets, old))
    return sequences
