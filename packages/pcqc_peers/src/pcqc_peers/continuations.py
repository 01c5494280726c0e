"""Consultations played on from a state, which say what the state is worth to the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, Dialogue, RolloutContext, advance, play_on
from pcqc.methods.reward import outcome_reward


@dataclass(frozen=True)
class Continued:
    """Rewards of what was played on.

    Attributes:
        values: mean reward from each dialogue given; NaN where the patient failed every time.
        consultations: complete ones that were played for it.
        sampled_tokens: those of the actor in them.
    """

    values: np.ndarray
    consultations: int
    sampled_tokens: int


def before_turns(case: Case, consultation: Consultation) -> list[Dialogue]:
    """The consultation before each of its turns."""
    return [
        Dialogue.before(case, consultation, turn, f"{consultation.rollout}.{turn}")
        for turn in range(len(consultation.turns))
    ]


def after_candidates(
    context: RolloutContext, case: Case, consultation: Consultation, number: int
) -> list[Dialogue]:
    """The consultation after each candidate of a turn, as if that one had been executed."""
    dialogues = []
    for k, response in enumerate(consultation.turns[number].responses):
        lineage = f"{consultation.rollout}.{number}:{k}"
        dialogue = Dialogue.before(case, consultation, number, lineage)
        advance(context, dialogue, [response])
        dialogues.append(dialogue)
    return dialogues


def continue_each(
    context: RolloutContext, dialogues: Sequence[Dialogue], count: int, *, seed: int, stage: str
) -> list[list[Consultation]]:
    """Play each dialogue to its end `count` times; one that has ended is itself, once."""
    going = [d for d in dialogues if d.consultation.ending is None]
    copies = [
        replace(d.branch(0), lineage=f"{d.lineage}/{number}")
        for d in going
        for number in range(count)
    ]
    played = iter(play_on(context, copies, seed=seed, stage=f"{stage}/continuations"))
    return [
        [next(played) for _ in range(count)]
        if dialogue.consultation.ending is None
        else [dialogue.consultation]
        for dialogue in dialogues
    ]


def continue_all(
    context: RolloutContext, dialogues: Sequence[Dialogue], count: int, *, seed: int, stage: str
) -> Continued:
    """Play each dialogue to its end `count` times and average the rewards.

    One that has ended already has its own reward, and costs nothing.
    """
    is_open = [d.consultation.ending is None for d in dialogues]
    every = continue_each(context, dialogues, count, seed=seed, stage=stage)
    values, tokens = [], 0
    for dialogue, ended, going in zip(dialogues, every, is_open, strict=True):
        if going:
            tokens += sum(c.actor_tokens - dialogue.consultation.actor_tokens for c in ended)
        rewards = [outcome_reward(dialogue.case, c) for c in ended if c.ending != "patient_failed"]
        values.append(float(np.mean(rewards)) if rewards else np.nan)
    return Continued(np.array(values), count * sum(is_open), tokens)
