"""Peers that credit the turns of GRPO's consultations one by one (docs/credits.md).

Samples: GRPO's consultations; VinePPO also some that go on from each state.
Credits: every turn by its method's function in `peer_credit.py`.
Trains on: GRPO's tokens, each with the credit of its turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.methods import peer_credit
from pcqc.methods.beliefs import actor_beliefs, scorer_beliefs
from pcqc.methods.continuations import before_turns, continue_all
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.methods.peer_credit import Turns
from pcqc.methods.sequences import executed_sequences
from pcqc.roles import Scorer
from pcqc.study import Method
from pcqc.study.training import OF_BELIEFS
from pcqc.training.policy import Policy

Played = Sequence[tuple[Case, Consultation]]


@dataclass(frozen=True)
class Known:
    """What is known of the consultations of one case; see `peer_credit`.

    Attributes:
        rewards: float [G].
        states: what was said before each turn, in any order.
        beliefs: float [T_i] of each consultation, where the credit reads them.
        values: float [T_i] of each consultation, where the credit reads them.
    """

    rewards: np.ndarray
    states: list[list[frozenset]]
    beliefs: Turns
    values: Turns


def _by_case(credit: Callable[[Known], Turns]) -> Callable[[Sequence[Known]], list[Turns]]:
    return lambda every: [credit(known) for known in every]


def _vineppo(every: Sequence[Known]) -> list[Turns]:
    """Standardised across the update."""
    flat = iter(
        peer_credit.vineppo(
            [values for known in every for values in known.values],
            np.concatenate([known.rewards for known in every]),
        )
    )
    return [[next(flat) for _ in known.rewards] for known in every]


# Turn credit -> function of all cases of an update.
CREDITS: dict[str, Callable[[Sequence[Known]], list[Turns]]] = {
    "igpo": _by_case(lambda known: peer_credit.igpo(known.beliefs, known.rewards)),
    "tips": _by_case(lambda known: peer_credit.tips(_logs(known.beliefs), known.rewards)),
    "vineppo": _vineppo,
    "gigpo": _by_case(lambda known: peer_credit.gigpo(known.states, known.rewards)),
    "mt_grpo": _by_case(lambda known: peer_credit.mt_grpo(known.beliefs, known.rewards)),
}


def _logs(beliefs: Turns) -> Turns:
    return [np.log(np.maximum(belief, 1e-12)) for belief in beliefs]


@dataclass
class TurnBatch(GroupBatch):
    """Groups of consultations, credited turn by turn.

    Attributes:
        credits: per case and consultation, float [T_i].
        alone: share of turns at a state that no other turn of the case has.
    """

    credits: list[Turns] = field(default_factory=list)
    alone: float = 0.0


class TurnCredited(Grpo):
    """See the module.

    Args:
        settings: group size, credit, coefficients.
        policy: the actor in training.
        seed: of the run.
        scorer: frozen; None where the credit needs none.
    """

    def __init__(self, settings: Method, policy: Policy, seed: int, scorer: Scorer | None):
        super().__init__(settings, policy, seed)
        self.scorer = scorer

    def collect_rollouts(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> TurnBatch:
        """See `Grpo.collect_rollouts`; each turn has a credit of its own."""
        batch = TurnBatch(**vars(self.sample_groups(context, cases, update)))
        known = self._known(context, batch, f"update/{update}")
        batch.alone = float(np.mean([peer_credit.share_alone(one.states) for one in known]))
        found = CREDITS[self.settings.turn_credit](known)
        for row, of_case in zip(batch.consultations, found, strict=True):
            # What a served role did not answer credits nothing.
            credits = [np.nan_to_num(of_one) for of_one in of_case]
            batch.credits.append(credits)
            for consultation, of_turns in zip(row, credits, strict=True):
                batch.sequences += executed_sequences(consultation, of_turns)
        return batch

    def _known(self, context: RolloutContext, batch: TurnBatch, stage: str) -> list[Known]:
        """What the credit reads, of each case; a method reads no more than it needs."""
        rows = zip(batch.cases, batch.consultations, strict=True)
        every = [(case, consultation) for case, row in rows for consultation in row]
        none = [np.zeros(0)] * len(every)
        beliefs = self._beliefs(context, every) if self.settings.turn_credit in OF_BELIEFS else none
        values = self._values(context, batch, every, stage) if self.settings.continuations else none
        found, at = [], 0
        for rewards, row in zip(batch.rewards, batch.consultations, strict=True):
            of_case = slice(at, at + len(row))
            states = [[frozenset(turn.exchanges) for turn in c.turns] for c in row]
            found.append(Known(rewards, states, beliefs[of_case], values[of_case]))
            at += len(row)
        return found

    def _beliefs(self, context: RolloutContext, every: Played) -> Turns:
        """The correct option's probability before each turn."""
        consultations = [c for _, c in every]
        if self.settings.belief == "actor":
            with context.timed("rollout"):
                read = actor_beliefs(context, consultations)
        else:
            with context.timed("scorer"):
                read = scorer_beliefs(self.scorer, consultations)
        answers = [case.public.labels.index(case.answer) for case, _ in every]
        return [belief[:, y] for belief, y in zip(read, answers, strict=True)]

    def _values(
        self, context: RolloutContext, batch: TurnBatch, every: Played, stage: str
    ) -> Turns:
        """Monte-Carlo values before each turn; all consultations of a case share the first."""
        dialogues = [before_turns(case, consultation) for case, consultation in every]
        shared = [i for i, (_, c) in enumerate(every) if c.rollout and dialogues[i]]
        for i in shared:
            dialogues[i] = dialogues[i][1:]
        count = self.settings.continuations
        flat = [d for row in dialogues for d in row]
        found = continue_all(context, flat, count, seed=self.seed, stage=stage)
        batch.sampled_tokens += found.sampled_tokens
        batch.continued += found.consultations
        values = np.split(found.values, np.cumsum([len(row) for row in dialogues])[:-1])
        for i in shared:
            values[i] = np.append(values[i - every[i][1].rollout][:1], values[i])
        return values
