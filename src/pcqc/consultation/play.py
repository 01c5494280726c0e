"""Consultations played in batches, many dialogues side by side."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pcqc.cases import Case
from pcqc.chat import ChatFormat
from pcqc.config import Protocol
from pcqc.consultation.log import Consultation, Dialogue, Response, Turn
from pcqc.consultation.question_mask import question_start
from pcqc.engines.base import Completion, Failure
from pcqc.protocol import REMINDER, Exchange, parse_action
from pcqc.roles import Actor, Patient
from pcqc.roles.patient import Inquiry
from pcqc.seeds import stream


@dataclass(frozen=True)
class RolloutContext:
    """The roles of a consultation and its rules.

    `timed` maps the name of a phase to a context manager that times it.
    """

    actor: Actor
    patient: Patient
    chat: ChatFormat
    protocol: Protocol
    timed: Callable[[str], AbstractContextManager] = lambda phase: nullcontext()


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
        seed: of the run; with `stage`, case, rollout, turn and candidate it names every draw.
        stage: keeps the draws of training updates and of evaluation apart.
        turns: stop after this many and leave consultations open; play to the end if not given.

    Returns:
        One list of `rollouts` consultations per case.
    """
    dialogues = open_dialogues(context, cases, rollouts)
    last = context.protocol.max_turns if turns is None else turns
    return _play(context, dialogues, last, candidates, f"{seed}/{stage}", rollouts)


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


@dataclass(frozen=True)
class Opening:
    """A first question-answer pair from which consultations continue.

    Attributes:
        case: the facts go to the patient, the public part to the actor.
        action: the actor's sampled tokens that ask the question.
        answer: the patient's answer to it.
        first_rollout: number of the first consultation from here; names its draws.
    """

    case: Case
    action: Sequence[int]
    answer: str
    first_rollout: int


def continue_from(
    context: RolloutContext, openings: Sequence[Opening], *, rollouts: int, seed: int, stage: str
) -> list[list[Consultation]]:
    """Sample `rollouts` consultations that share each opening's first turn; see `roll_out`.

    Returns:
        One list of `rollouts` consultations per opening, the first turn included.
    """
    dialogues = []
    for opening in openings:
        case, prompt = opening.case, context.chat.open(opening.case.public)
        asked = _read(context.chat, Completion(list(opening.action), [], True), case.public.labels)
        asked = replace(asked, answer=opening.answer)
        for rollout in range(opening.first_rollout, opening.first_rollout + rollouts):
            consultation = Consultation(case.public, rollout, prompt)
            dialogue = Dialogue(case, consultation, list(prompt), str(rollout))
            advance(context, dialogue, [asked])
            dialogues.append(dialogue)
    last = context.protocol.max_turns
    return _play(context, dialogues, last, 1, f"{seed}/{stage}", rollouts)


def _play(
    context: RolloutContext,
    dialogues: list[Dialogue],
    turns: int,
    candidates: int,
    name: str,
    rollouts: int,
) -> list[list[Consultation]]:
    """Play up to `turns` turns of each, side by side; the consultations, `rollouts` to a list."""
    while going := [d for d in dialogues if d.consultation.ending is None and d.turn < turns]:
        _play_turn(context, going, candidates, name)
    consultations = [d.consultation for d in dialogues]
    return [consultations[i : i + rollouts] for i in range(0, len(consultations), rollouts)]


def _play_turn(
    context: RolloutContext, dialogues: list[Dialogue], candidates: int, name: str
) -> None:
    # No exchange can follow the last turn, so there is nothing to compare at it.
    last = context.protocol.max_turns - 1
    widths = [candidates if d.consultation.rollout == 0 and d.turn < last else 1 for d in dialogues]
    groups = sample_responses(context, dialogues, widths, name)
    # A group is kept where its first response asks; otherwise only that response counts.
    groups = [g if g[0].action.question else g[:1] for g in groups]
    groups = ask_patient(context, dialogues, groups, name)
    for dialogue, group in zip(dialogues, groups, strict=True):
        advance(context, dialogue, group)


def sample_responses(
    context: RolloutContext, dialogues: Sequence[Dialogue], widths: Sequence[int], name: str
) -> list[list[Response]]:
    """Sample responses at every dialogue's state, in one call of the actor.

    Args:
        context: roles and rules.
        dialogues: before their next turn.
        widths: responses of each.
        name: of the random streams, `<seed>/<stage>`.

    Returns:
        One list of responses, not answered yet, per dialogue.
    """
    streams = [
        tuple(_stream(name, "actor", dialogue, k) for k in range(width))
        for dialogue, width in zip(dialogues, widths, strict=True)
    ]
    with context.timed("rollout"):
        drawn = context.actor.act([d.state for d in dialogues], streams)
    return [
        [_read(context.chat, completion, d.case.public.labels) for completion in completions]
        for d, completions in zip(dialogues, drawn, strict=True)
    ]


def ask_patient(
    context: RolloutContext,
    dialogues: Sequence[Dialogue],
    groups: Sequence[list[Response]],
    name: str,
) -> list[list[Response]]:
    """Have the patient answer all questions of the groups, in one call; see `sample_responses`.

    A question of the last turn is not answered: no turn could use the answer.

    Returns:
        The groups, with the answers.
    """
    last = context.protocol.max_turns - 1
    asked = [
        (i, k)
        for i, (dialogue, group) in enumerate(zip(dialogues, groups, strict=True))
        for k, response in enumerate(group)
        if response.action.question and dialogue.turn < last
    ]
    if not asked:
        return list(groups)
    inquiries = [
        Inquiry(
            dialogues[i].case.facts,
            groups[i][k].action.question,
            _stream(name, "patient", dialogues[i], k),
        )
        for i, k in asked
    ]
    with context.timed("patient"):
        answers = context.patient.answer(inquiries)
    answered = [list(group) for group in groups]
    for (i, k), said in zip(asked, answers, strict=True):
        if isinstance(said, Failure):
            answered[i][k] = replace(answered[i][k], failure=said)
        else:
            answered[i][k] = replace(answered[i][k], answer=said)
    return answered


def _stream(name: str, role: str, dialogue: Dialogue, candidate: int) -> int:
    return stream(0, name, role, dialogue.case.case_id, dialogue.lineage, dialogue.turn, candidate)


def _read(chat: ChatFormat, completion: Completion, labels: tuple[str, ...]) -> Response:
    text = chat.decode(completion.tokens)
    action = parse_action(text, labels)
    # A final answer with a marker after it is no question: its tokens get no question credit.
    start = question_start(chat, completion.tokens) if action.question else None
    return Response(completion, text, action, start)


def advance(context: RolloutContext, dialogue: Dialogue, group: Sequence[Response]) -> None:
    """Append a turn with its responses, of which the first is executed; end what ends with it.

    A failure of the patient ends it, even if the question was not executed.
    """
    consultation, executed = dialogue.consultation, group[0]
    consultation.turns.append(Turn(list(dialogue.state), consultation.exchanges, tuple(group)))
    if any(response.failure for response in group):
        consultation.ending = "patient_failed"
        return
    action = executed.action
    if action.kind == "final":
        consultation.predicted = action.text if action.valid else None
        consultation.ending = "answer" if action.valid else "invalid_answer"
        return
    if dialogue.turn == context.protocol.max_turns:
        consultation.ending = "turn_limit" if action.question else "no_action"
        return
    reply = REMINDER
    if action.question:
        reply = executed.answer
        consultation.exchanges += (Exchange(action.question, reply),)
    dialogue.state = context.chat.continue_state(
        dialogue.state, executed.completion.tokens, reply, context.protocol.earlier_thinking
    )
    used = len(dialogue.state) - len(consultation.prompt)
    if used + context.actor.sampling.max_tokens > context.protocol.response_tokens:
        consultation.ending = "token_limit"
