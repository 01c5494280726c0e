"""Consultations played in batches, many dialogues side by side."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pcqc.cases import Case
from pcqc.config import Protocol
from pcqc.consultation.log import Consultation, Dialogue, Response, Turn
from pcqc.engines.base import Completion, Failure
from pcqc.protocol import REMINDER, ChatFormat, Exchange, parse_action
from pcqc.roles import Actor, Patient
from pcqc.roles.patient import Inquiry
from pcqc.seeds import stream


@dataclass(frozen=True)
class Setting:
    """Who takes part in a consultation, and under which rules.

    `timed` maps the name of a phase to a context manager that times it.
    """

    actor: Actor
    patient: Patient
    chat: ChatFormat
    protocol: Protocol
    timed: Callable[[str], AbstractContextManager] = lambda phase: nullcontext()


def roll_out(
    setting: Setting,
    cases: Sequence[Case],
    *,
    rollouts: int,
    candidates: int = 1,
    seed: int,
    stage: str,
    turns: int | None = None,
) -> list[list[Consultation]]:
    """Draw `rollouts` complete consultations of each case, all dialogues side by side.

    Args:
        setting: roles and rules.
        cases: the facts go to the patient, the public part to the actor.
        rollouts: G_T, consultations per case.
        candidates: G_Q, responses sampled at every state of a case's first consultation at which
            a question can still be answered; the first is executed, all are answered.
        seed: of the run; with `stage`, case, rollout, turn and candidate it names every draw.
        stage: keeps the draws of training updates and of evaluation apart.
        turns: stop after so many and leave consultations open; all of them where not given.

    Returns:
        One list of `rollouts` consultations per case.
    """
    dialogues = open_dialogues(setting, cases, rollouts)
    last = setting.protocol.max_turns if turns is None else turns
    return _play(setting, dialogues, last, candidates, f"{seed}/{stage}", rollouts)


def open_dialogues(setting: Setting, cases: Sequence[Case], rollouts: int = 1) -> list[Dialogue]:
    """Dialogues before their first turn, `rollouts` of each case one after another."""
    dialogues = []
    for case in cases:
        prompt = setting.chat.open(case.public)
        for rollout in range(rollouts):
            consultation = Consultation(case.public, rollout, prompt)
            if len(prompt) > setting.protocol.prompt_tokens:
                consultation.ending = "token_limit"
            dialogues.append(Dialogue(case, consultation, list(prompt), str(rollout)))
    return dialogues


@dataclass(frozen=True)
class Opening:
    """A first question-answer pair from which consultations go on.

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
    setting: Setting, openings: Sequence[Opening], *, rollouts: int, seed: int, stage: str
) -> list[list[Consultation]]:
    """Draw `rollouts` consultations that share each opening's first turn; see `roll_out`.

    Returns:
        One list of `rollouts` consultations per opening, the first turn included.
    """
    dialogues = []
    for opening in openings:
        case, prompt = opening.case, setting.chat.open(opening.case.public)
        asked = _read(setting.chat, Completion(list(opening.action), [], True), case.public.labels)
        asked = replace(asked, answer=opening.answer)
        for rollout in range(opening.first_rollout, opening.first_rollout + rollouts):
            consultation = Consultation(case.public, rollout, prompt)
            dialogue = Dialogue(case, consultation, list(prompt), str(rollout))
            advance(setting, dialogue, [asked])
            dialogues.append(dialogue)
    last = setting.protocol.max_turns
    return _play(setting, dialogues, last, 1, f"{seed}/{stage}", rollouts)


def _play(
    setting: Setting,
    dialogues: list[Dialogue],
    turns: int,
    candidates: int,
    name: str,
    rollouts: int,
) -> list[list[Consultation]]:
    """Play up to `turns` turns of each, side by side; the consultations, `rollouts` to a list."""
    while going := [d for d in dialogues if d.consultation.ending is None and d.turn < turns]:
        _play_turn(setting, going, candidates, name)
    consultations = [d.consultation for d in dialogues]
    return [consultations[i : i + rollouts] for i in range(0, len(consultations), rollouts)]


def _play_turn(setting: Setting, dialogues: list[Dialogue], candidates: int, name: str) -> None:
    # No exchange can follow the last turn, so there is nothing to compare at it.
    last = setting.protocol.max_turns - 1
    widths = [candidates if d.consultation.rollout == 0 and d.turn < last else 1 for d in dialogues]
    groups = sample_responses(setting, dialogues, widths, name)
    # A group is kept where its first response asks; otherwise only that response counts.
    groups = [g if g[0].action.question else g[:1] for g in groups]
    groups = ask_patient(setting, dialogues, groups, name)
    for dialogue, group in zip(dialogues, groups, strict=True):
        advance(setting, dialogue, group)


def sample_responses(
    setting: Setting, dialogues: Sequence[Dialogue], widths: Sequence[int], name: str
) -> list[list[Response]]:
    """Sample responses at every dialogue's state, in one call of the actor.

    Args:
        setting: roles and rules.
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
    with setting.timed("rollout"):
        drawn = setting.actor.act([d.state for d in dialogues], streams)
    return [
        [_read(setting.chat, completion, d.case.public.labels) for completion in completions]
        for d, completions in zip(dialogues, drawn, strict=True)
    ]


def ask_patient(
    setting: Setting, dialogues: Sequence[Dialogue], groups: Sequence[list[Response]], name: str
) -> list[list[Response]]:
    """Have the patient answer all questions of the groups, in one call; see `sample_responses`.

    A question of the last turn is not answered: nothing can come of it.

    Returns:
        The groups, with the answers.
    """
    last = setting.protocol.max_turns - 1
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
    with setting.timed("patient"):
        answers = setting.patient.answer(inquiries)
    answered = [list(group) for group in groups]
    for (i, k), said in zip(asked, answers, strict=True):
        kind = "failure" if isinstance(said, Failure) else "answer"
        answered[i][k] = replace(answered[i][k], **{kind: said})
    return answered


def _stream(name: str, role: str, dialogue: Dialogue, candidate: int) -> int:
    return stream(0, name, role, dialogue.case.case_id, dialogue.lineage, dialogue.turn, candidate)


def _read(chat: ChatFormat, completion: Completion, labels: tuple[str, ...]) -> Response:
    text = chat.decode(completion.tokens)
    return Response(
        completion, text, parse_action(text, labels), chat.question_start(completion.tokens)
    )


def advance(setting: Setting, dialogue: Dialogue, group: Sequence[Response]) -> None:
    """Append a turn with its responses, of which the first is executed; end what ends with it.

    A failure of the patient ends it, also where an unexecuted question met it.
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
    if dialogue.turn == setting.protocol.max_turns:
        consultation.ending = "turn_limit" if action.question else "no_action"
        return
    reply = REMINDER
    if action.question:
        reply = executed.answer
        consultation.exchanges += (Exchange(action.question, reply),)
    dialogue.state = setting.chat.continue_state(
        dialogue.state, executed.completion.tokens, reply, setting.protocol.earlier_thinking
    )
    used = len(dialogue.state) - len(consultation.prompt)
    if used + setting.actor.sampling.max_tokens > setting.protocol.response_tokens:
        consultation.ending = "token_limit"
