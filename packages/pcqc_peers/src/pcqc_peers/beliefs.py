"""Beliefs along consultations: the probability of each option before every turn."""

from collections.abc import Sequence

import numpy as np

from pcqc.cases.prompts import ANSWER_MARKER
from pcqc.consultation import Consultation, RolloutContext
from pcqc.engines.base import Failure
from pcqc.roles import Scorer
from pcqc.roles.scorer import normalise, split_labels

Beliefs = list[np.ndarray]  # per consultation, float [turns, options]


def scorer_beliefs(scorer: Scorer, consultations: Sequence[Consultation]) -> Beliefs:
    """The frozen scorer's, from the exchanges before each turn; NaN where a served one failed."""
    every = [(c.case, turn.exchanges) for c in consultations for turn in c.turns]
    return _by_consultation(consultations, scorer.probabilities(every))


def actor_beliefs(context: RolloutContext, consultations: Sequence[Consultation]) -> Beliefs:
    """The actor's: of each label as its answer, right after the thinking that it sampled."""
    chat = context.chat
    prompts: list[tuple[int, ...]] = []
    choices: list[list[int]] = []
    for consultation in consultations:
        texts = [f"{ANSWER_MARKER} {label}" for label in consultation.case.labels]
        shared, tails = split_labels([chat.encode(text) for text in texts])
        for turn in consultation.turns:
            tokens = turn.executed.completion.tokens
            thought = tokens[: chat.thinking_stop(tokens)]
            prompts.append((*turn.state, *thought, *shared))
            choices.append([tail[0] for tail in tails])
    # Consultations that branched off from one another share their first turns.
    unique = dict(zip(prompts, choices, strict=True))
    logprobs = context.actor.engine.next_logprobs(list(unique), list(unique.values()))
    read = dict(zip(unique, map(normalise, logprobs), strict=True))
    return _by_consultation(consultations, [read[prompt] for prompt in prompts])


def _by_consultation(consultations: Sequence[Consultation], read: Sequence) -> Beliefs:
    beliefs, rows = [], iter(read)
    for consultation in consultations:
        options = len(consultation.case.labels)
        blank = np.full(options, np.nan)
        of_turns = [next(rows) for _ in consultation.turns]
        of_turns = [blank if isinstance(row, Failure) else row for row in of_turns]
        beliefs.append(np.array(of_turns).reshape(-1, options))
    return beliefs
