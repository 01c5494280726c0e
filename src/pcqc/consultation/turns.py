"""The turns of consultations: responses sampled, questions answered, dialogues advanced."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import REMINDER, Exchange, parse_action
from pcqc.consultation.log import Dialogue, Response, Turn
from pcqc.consultation.question_mask import question_start
from pcqc.engines.base import Completion, Failure
from pcqc.roles import Actor, Patient, Scorer
from pcqc.roles.patient import Inquiry
from pcqc.seeds import stream
from pcqc_base.settings import Protocol


@dataclass(frozen=True)
class RolloutContext:
    """The roles of a consultation and its rules.

    Attributes:
        scorer: reads candidate groups during rollouts, as they are answered, where its engine can
            do so beside the others; the scores are those that it would give afterwards.
        timed: name of a phase -> context manager that times it.
    """

    actor: Actor
    patient: Patient
    chat: ChatFormat
    protocol: Protocol
    scorer: Scorer | None = None
    timed: Callable[[str], AbstractContextManager] = lambda phase: nullcontext()


def is_open(dialogue: Dialogue, turns: int) -> bool:
    """Whether the dialogue has not ended and has had fewer than `turns` turns."""
    return dialogue.consultation.ending is None and dialogue.turn < turns


def width(context: RolloutContext, dialogue: Dialogue, candidates: int) -> int:
    """Responses to sample at the dialogue's state.

    No exchange can follow the last turn, so there is nothing to compare at it.
    """
    first, last = dialogue.consultation.rollout == 0, context.protocol.max_turns - 1
    return candidates if first and dialogue.turn < last else 1


def streams_of(name: str, dialogue: Dialogue, count: int) -> tuple[int, ...]:
    """Random streams of `count` responses at the dialogue's state."""
    return tuple(_stream(name, "actor", dialogue, k) for k in range(count))


def keep_candidates(group: list[Response]) -> list[Response]:
    """The group where its first response asks a question, else that response alone."""
    return group if group[0].action.question else group[:1]


def inquiries(
    context: RolloutContext, dialogue: Dialogue, group: Sequence[Response], name: str
) -> dict[int, Inquiry]:
    """What the patient gets for each response that asks something, by the response's number.

    A question of the last turn is not answered: no turn could use the answer.
    """
    if dialogue.turn == context.protocol.max_turns - 1:
        return {}
    return {
        k: Inquiry(
            dialogue.case.facts, response.action.question, _stream(name, "patient", dialogue, k)
        )
        for k, response in enumerate(group)
        if response.action.question
    }


def with_answers(group: Sequence[Response], answers: dict[int, str | Failure]) -> list[Response]:
    """The group with the answers to its responses, by number."""
    answered = list(group)
    for k, answer in answers.items():
        if isinstance(answer, Failure):
            answered[k] = replace(answered[k], failure=answer)
        else:
            answered[k] = replace(answered[k], answer=answer)
    return answered


def sample_responses(
    context: RolloutContext, dialogues: Sequence[Dialogue], widths: Sequence[int], name: str
) -> list[list[Response]]:
    """Sample responses at every dialogue's state, in one call of the actor.

    Args:
        context: roles and rules.
        dialogues: before their next turn.
        widths: responses of each.
        name: begins those of the random streams, `<seed>/<stage>`.

    Returns:
        One list of responses, not answered yet, per dialogue.
    """
    streams = [streams_of(name, d, count) for d, count in zip(dialogues, widths, strict=True)]
    with context.timed("rollout"):
        completions = context.actor.act([d.state for d in dialogues], streams)
    pairs = zip(dialogues, completions, strict=True)
    return [read_responses(context, dialogue, sampled) for dialogue, sampled in pairs]


def read_responses(
    context: RolloutContext, dialogue: Dialogue, completions: Sequence[Completion]
) -> list[Response]:
    """Responses in the completions sampled at the dialogue's state."""
    labels = dialogue.case.public.labels
    return [read_response(context.chat, completion, labels) for completion in completions]


def ask_patient(
    context: RolloutContext,
    dialogues: Sequence[Dialogue],
    groups: Sequence[list[Response]],
    name: str,
) -> list[list[Response]]:
    """Have the patient answer all questions of the groups, in one call; see `sample_responses`.

    Returns:
        The groups, with the answers.
    """
    pairs = zip(dialogues, groups, strict=True)
    asked = [inquiries(context, dialogue, group, name) for dialogue, group in pairs]
    flat = [inquiry for of_group in asked for inquiry in of_group.values()]
    if not flat:
        return list(groups)
    with context.timed("patient"):
        answers = iter(context.patient.answer(flat))
    return [
        with_answers(group, {k: next(answers) for k in of_group})
        for group, of_group in zip(groups, asked, strict=True)
    ]


def _stream(name: str, role: str, dialogue: Dialogue, candidate: int) -> int:
    return stream(0, name, role, dialogue.case.case_id, dialogue.lineage, dialogue.turn, candidate)


def read_response(chat: ChatFormat, completion: Completion, labels: tuple[str, ...]) -> Response:
    """The response in a completion: its action, and where its question's tokens start."""
    text = chat.response(completion.tokens)
    action = parse_action(text, labels)
    # A final answer with a marker after it is no question: its tokens get no question credit.
    start = question_start(chat, completion.tokens) if action.question else None
    return Response(completion, text, action, start)


def advance(context: RolloutContext, dialogue: Dialogue, group: Sequence[Response]) -> None:
    """Append a turn with its responses, the first of them executed; end the dialogue if due.

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
