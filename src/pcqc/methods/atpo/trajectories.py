"""From searched trees to what actor and critic train on, trajectory by trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.consultation import Consultation
from pcqc.methods.atpo.search_and_pruning import Search
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.sequences import executed_sequences
from pcqc.training.training_sequence import TrainingSequence, ValueSequence, pack_turns
from turn_credit.tree import atpo, back_up


@dataclass
class Trajectory:
    """One completed consultation of a tree.

    Attributes:
        actor: its sequences; one, unless the history was changed on the way.
        critic: the same tokens with the critic's targets V_hat.
    """

    actor: list[TrainingSequence]
    critic: list[ValueSequence]


def trajectories(search: Search, rules: TreeSearch) -> list[Trajectory]:
    """All completed trajectories of a tree that have an actor's turn.

    The actor's tokens of a trajectory weigh 1 together, whatever its length.

    Args:
        search: the searched tree.
        rules: how advantages are read, and where V is trained.
    """
    targets = back_up(search.tree)
    scores = atpo(search.tree, rules.divide_by_visits, rules.advantage)
    completed = []
    for consultation, path in search.trajectories:
        if not consultation.turns:
            continue
        weight = 1 / consultation.actor_tokens
        actor = executed_sequences(consultation, [scores[i] for i in path[1:]], weight=weight)
        states = [(targets[i], search.value_tokens[i]) for i in path[:-1]]
        critic = _critic_sequences(consultation, states, rules.value_positions)
        completed.append(Trajectory(actor, critic))
    return completed


def _critic_sequences(
    consultation: Consultation, states: Sequence[tuple[float, np.ndarray]], positions: str
) -> list[ValueSequence]:
    """Sequences with V_hat and the old values where each turn's state ends.

    At the release's positions the old values are still missing (`Critic.keep_values`): the search
    read others.
    """
    sequences = []
    for packed in pack_turns(consultation.executed):
        targets, old = np.full((2, len(packed.tokens)), np.nan)
        for number, start in packed.starts.items():
            target, outputs = states[number]
            if positions == "release":
                targets[start - 1 : start - 1 + len(outputs)] = target
            else:
                targets[start - len(outputs) : start] = target
                old[start - len(outputs) : start] = outputs
        sequences.append(ValueSequence(packed.tokens, targets, old))
    return sequences
