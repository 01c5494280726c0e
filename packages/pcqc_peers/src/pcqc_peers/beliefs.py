"""Beliefs along consultations: the probability of each option before every turn."""

from collections.abc import Sequence

import numpy as np

from pcqc.cases.prompts import ANSWER_MARKER
from pcqc.consultation import Consultation, RolloutContext
from pcqc.engines.base import Failure
from pcqc.roles import Scorer
from pcqc.roles.scorer import Reading, normalise

Beliefs = list[np.ndarray]  # per consultation, float [turns, options]


def scorer_beliefs(scorer: Scorer, consultations: Sequence[Consultation]) -> Beliefs:
    """The frozen scorer's, from the exchanges before each turn; NaN where a served one failed."""
    every = [(c.case, turn.exchanges) for c in consultations for turn in c.turns]
    return _by_consultation(consultations, scorer.probabilities(every))


def actor_beliefs(context: RolloutContext, consultations: Sequence[Consultation]) -> Beliefs:
    """The actor's: of each label as its answer, right after the thinking that it sampled."""
    chat = context.chat
    readings: list[Reading] = []
    for consultation in consultations:
        texts = [f"{ANSWER_MARKER} {label}" for label in consultation.case.labels]
        labels = [chat.encode(text) for text in texts]
        for turn in consultation.turns:
            tokens = turn.executed.completion.tokens
            before = [*turn.state, *tokens[: chat.thinking_stop(tokens)]]
            readings.append(Reading.of([[*before, *ids] for ids in labels]))
    # Consultations that branched off from one another share their first turns.
    unique = {tuple(ids): choices for r in readings for ids, choices in r.passes}
    logprobs = context.actor.engine.next_logprobs(list(unique), list(unique.values()))
    read = dict(zip(unique, logprobs, strict=True))
    beliefs = [
        normalise(reading.logprobs([read[tuple(ids)] for ids, _ in reading.passes]))
        for reading in readings
    ]
    return _by_consultation(consultations, beliefs)


def _by_consultation(consultations: Sequence[Consultation], read: Sequence) -> Beliefs:
    beliefs, rows = [], iter(read)
    for consultation in consultations:
        options = len(consultation.case.labels)
        blank = np.full(options, np.nan)
        of_turns = [next(rows) for _ in consultation.turns]
        of_turns = [blank if isinstance(row, Failure) else row for row in of_turns]
        beliefs.append(np.array(of_turns).reshape(-1, options))
    return beliefs
