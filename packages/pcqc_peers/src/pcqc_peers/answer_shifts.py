"""How much likelier a patient's answer made the doctor's next response (InfoPO)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pcqc.cases.prompts import UNANSWERABLE
from pcqc.consultation import Consultation, RolloutContext
from pcqc.training.batching import SelectedTokens

if TYPE_CHECKING:
    from pcqc.training.policy import Policy


def answer_shifts(
    policy: "Policy", context: RolloutContext, consultations: Sequence[Consultation]
) -> list[np.ndarray]:
    """The shift of each turn, float [turns] of each consultation.

    It is the mean over the next response's tokens of their log-probability, less the same with
    `UNANSWERABLE` in the answer's place; earlier answers stay. Where no answer came, or no response
    followed, it is 0.

    Args:
        policy: the actor, which reads each such response twice.
        context: chat format and protocol.
        consultations: complete ones.
    """
    places, items = [], []
    for i, consultation in enumerate(consultations):
        for number, (turn, later) in enumerate(pairwise(consultation.turns)):
            if turn.executed.answer is None:
                continue
            untold = context.chat.continue_state(
                turn.state,
                turn.executed.completion.tokens,
                UNANSWERABLE,
                context.protocol.earlier_thinking,
            )
            response = later.executed.completion.tokens
            places.append((i, number))
            items += [_after(later.state, response), _after(untold, response)]
    read = policy.logprobs(items)
    shifts = [np.zeros(len(consultation.turns)) for consultation in consultations]
    for (i, number), told, not_told in zip(places, read[::2], read[1::2], strict=True):
        shifts[i][number] = (told - not_told).mean()
    return shifts


def _after(state: Sequence[int], response: Sequence[int]) -> SelectedTokens:
    """A state and a response, whose tokens are selected."""
    tokens = [*state, *response]
    return SelectedTokens(tokens, np.arange(len(tokens)) >= len(state))
