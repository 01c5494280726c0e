"""Consultations played in batches, many dialogues side by side."""

from collections.abc import Sequence
from dataclasses import replace

from pcqc.cases.case import Case
from pcqc.consultation.log import Consultation, Dialogue
from pcqc.consultation.stream import can_stream, stream_dialogues
from pcqc.consultation.turns import (
    RolloutContext,
    advance,
    ask_patient,
    is_open,
    keep_candidates,
    read_response,
    sample_responses,
    width,
)
from pcqc.engines.base import Completion


def roll_out(
    context: RolloutContext,
    cases: Sequence[Case],
    *,
    rollouts: int,
    candidates: int = 1,
    seed: int,
    stage: str,
    turns: int | None = None,
) -> list[list[Consultation]]:
    """Sample `rollouts` complete consultations of each case, all dialogues side by side.

    Args:
        context: roles and rules.
        cases: the facts go to the patient, the public part to the actor.
        rollouts: G_T, consultations per case.
        candidates: G_Q, responses sampled at every state of a case's first consultation at which
            a question can still be answered; the first is executed, all are answered.
        seed: the run's; with `stage`, case, rollout, turn and candidate it names every draw.
        stage: keeps the draws of training updates and of evaluation apart.
        turns: stop after this many and leave consultations open; by default play to the end.

    Returns:
        One list of `rollouts` consultations per case.
    """
    dialogues = open_dialogues(context, cases, rollouts)
    last = context.protocol.max_turns if turns is None else turns
    played = _play(context, dialogues, last, candidates, f"{seed}/{stage}")
    return [played[i : i + rollouts] for i in range(0, len(played), rollouts)]


def open_dialogues(
    context: RolloutContext, cases: Sequence[Case], rollouts: int = 1
) -> list[Dialogue]:
    """Dialogues before their first turn, `rollouts` of each case one after another."""
    dialogues = []
    for case in cases:
        prompt = context.chat.open(case.public)
        for rollout in range(rollouts):
            consultation = Consultation(case.public, rollout, prompt)
            if len(prompt) > context.protocol.prompt_tokens:
                consultation.ending = "token_limit"
            dialogues.append(Dialogue(case, consultation, list(prompt), str(rollout)))
    return dialogues


def open_with_question(
    context: RolloutContext, case: Case, rollout: int, action: Sequence[int], answer: str
) -> Dialogue:
    """A dialogue after a fixed first question-answer pair.

    Args:
        context: roles and rules.
        case: the facts go to the patient, the public part to the actor.
        rollout: number of the consultation; names its draws.
        action: the actor's sampled tokens that ask the question.
        answer: the patient's answer to it.
    """
    prompt = context.chat.open(case.public)
    consultation = Consultation(case.public, rollout, prompt)
    dialogue = Dialogue(case, consultation, list(prompt), str(rollout))
    asked = read_response(context.chat, Completion(list(action), []), case.public.labels)
    advance(context, dialogue, [replace(asked, answer=answer)])
    return dialogue


def play_on(
    context: RolloutContext, dialogues: Sequence[Dialogue], *, seed: int, stage: str
) -> list[Consultation]:
    """Play dialogues to their ends, one response at each state; see `roll_out`."""
    return _play(context, list(dialogues), context.protocol.max_turns, 1, f"{seed}/{stage}")


def _play(
    context: RolloutContext, dialogues: list[Dialogue], turns: int, candidates: int, name: str
) -> list[Consultation]:
    """Play up to `turns` turns of each, side by side."""
    if can_stream(context):
        return stream_dialogues(context, dialogues, turns, candidates, name)
    while ongoing := [d for d in dialogues if is_open(d, turns)]:
        widths = [width(context, dialogue, candidates) for dialogue in ongoing]
        sampled = sample_responses(context, ongoing, widths, name)
        groups = ask_patient(context, ongoing, [keep_candidates(g) for g in sampled], name)
        for dialogue, group in zip(ongoing, groups, strict=True):
            advance(context, dialogue, group)
    return [dialogue.consultation for dialogue in dialogues]
