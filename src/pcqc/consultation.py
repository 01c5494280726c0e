"""Consultations: append-only token logs, rolled out in batches over many dialogues.

What the actor sampled is what is trained: a consultation keeps the sampled ids and never decodes
and tokenises them again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal

from pcqc.cases import Case, PublicCase
from pcqc.config import Protocol
from pcqc.engines.base import Completion
from pcqc.protocol import REMINDER, Action, ChatFormat, Exchange, parse_action
from pcqc.roles import Actor, Patient
from pcqc.roles.patient import Inquiry
from pcqc.seeds import stream

Ending = Literal["answer", "invalid_answer", "no_action", "turn_limit", "token_limit"]


@dataclass(frozen=True)
class Response:
    """One sampled response of the actor.

    Attributes:
        completion: its tokens and the engine's log-probabilities.
        text: decoded, thinking included.
        action: what it says.
        question_start: index of its first question token, None without a `Question:` marker.
        answer: the patient's answer to its question, None where it was not asked.
    """

    completion: Completion
    text: str
    action: Action
    question_start: int | None
    answer: str | None = None


@dataclass(frozen=True)
class Turn:
    """One turn: the state O_t it was drawn at, and the responses; the first is executed.

    Attributes:
        state: token ids that the actor saw.
        exchanges: questions and answers before this turn.
        responses: the executed response, then the unexecuted candidates.
    """

    state: list[int]
    exchanges: tuple[Exchange, ...]
    responses: tuple[Response, ...]

    @property
    def executed(self) -> Response:
        return self.responses[0]


@dataclass
class Consultation:
    """One consultation of a case."""

    case: PublicCase
    rollout: int
    prompt: list[int]
    turns: list[Turn] = field(default_factory=list)
    exchanges: tuple[Exchange, ...] = ()
    ending: Ending | None = None
    predicted: str | None = None

    @property
    def inquiry_turns(self) -> int:
        """Non-final interaction attempts (Q/ep. counts these)."""
        return sum(turn.executed.action.kind != "final" for turn in self.turns)

    @property
    def actor_tokens(self) -> int:
        """Tokens that the actor generated in the consultation itself."""
        return sum(len(turn.executed.completion.tokens) for turn in self.turns)


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
    opened = [setting.chat.open(case.public) for case in cases]
    dialogues = [
        _Dialogue(case, Consultation(case.public, rollout, prompt), list(prompt))
        for case, prompt in zip(cases, opened, strict=True)
        for rollout in range(rollouts)
    ]
    for dialogue in dialogues:
        if len(dialogue.state) > setting.protocol.prompt_tokens:
            dialogue.consultation.ending = "token_limit"
    last = setting.protocol.max_turns if turns is None else turns
    return _play(setting, dialogues, range(last), candidates, f"{seed}/{stage}", rollouts)


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
            dialogue = _Dialogue(case, Consultation(case.public, rollout, prompt), list(prompt))
            _advance(setting, dialogue, (asked,), setting.protocol.max_turns == 1)
            dialogues.append(dialogue)
    turns = range(1, setting.protocol.max_turns)
    return _play(setting, dialogues, turns, 1, f"{seed}/{stage}", rollouts)


@dataclass
class _Dialogue:
    """A consultation under way, with the facts that only the patient is given."""

    case: Case
    consultation: Consultation
    state: list[int]


def _play(
    setting: Setting,
    dialogues: list[_Dialogue],
    turns: range,
    candidates: int,
    name: str,
    rollouts: int,
) -> list[list[Consultation]]:
    """Play the turns side by side; the consultations, `rollouts` to a list."""
    for turn in turns:
        going = [d for d in dialogues if d.consultation.ending is None]
        if not going:
            break
        _play_turn(setting, going, turn, candidates, name)
    consultations = [d.consultation for d in dialogues]
    return [consultations[i : i + rollouts] for i in range(0, len(consultations), rollouts)]


def _play_turn(setting, dialogues: list[_Dialogue], turn: int, candidates: int, name: str) -> None:
    last = turn + 1 == setting.protocol.max_turns

    def names(role: str, dialogue: _Dialogue, candidate: int) -> int:
        consultation = dialogue.consultation
        return stream(
            0, name, role, consultation.case.case_id, consultation.rollout, turn, candidate
        )

    # No exchange can follow the last turn, so there is nothing to compare at it.
    widths = [candidates if d.consultation.rollout == 0 and not last else 1 for d in dialogues]
    streams = [
        tuple(names("actor", d, k) for k in range(width))
        for d, width in zip(dialogues, widths, strict=True)
    ]
    with setting.timed("rollout"):
        drawn = setting.actor.act([d.state for d in dialogues], streams)
    groups = [
        [_read(setting.chat, completion, d.case.public.labels) for completion in completions]
        for d, completions in zip(dialogues, drawn, strict=True)
    ]
    # A group is kept where its first response asks; otherwise only that response counts.
    groups = [g if g[0].action.kind == "question" else g[:1] for g in groups]
    asked = [
        (i, k)
        for i, group in enumerate(groups)
        for k, response in enumerate(group)
        if response.action.kind == "question" and not last
    ]
    inquiries = [
        Inquiry(
            dialogues[i].case.facts, groups[i][k].action.text, names("patient", dialogues[i], k)
        )
        for i, k in asked
    ]
    with setting.timed("patient"):
        answers = setting.patient.answer(inquiries)
    for (i, k), answer in zip(asked, answers, strict=True):
        groups[i][k] = replace(groups[i][k], answer=answer)
    for dialogue, group in zip(dialogues, groups, strict=True):
        _advance(setting, dialogue, tuple(group), last)


def _read(chat: ChatFormat, completion: Completion, labels: tuple[str, ...]) -> Response:
    text = chat.decode(completion.tokens)
    return Response(
        completion, text, parse_action(text, labels), chat.question_start(completion.tokens)
    )


def _advance(setting, dialogue: _Dialogue, group: tuple[Response, ...], last: bool) -> None:
    """Append the executed response and its answer, or end the consultation."""
    consultation, executed = dialogue.consultation, group[0]
    consultation.turns.append(Turn(list(dialogue.state), consultation.exchanges, group))
    action = executed.action
    if action.kind == "final":
        consultation.predicted = action.text if action.valid else None
        consultation.ending = "answer" if action.valid else "invalid_answer"
        return
    if last:
        consultation.ending = "turn_limit" if action.kind == "question" else "no_action"
        return
    answer = REMINDER
    if action.kind == "question":
        answer = executed.answer
        consultation.exchanges += (Exchange(action.text, answer),)
    dialogue.state = setting.chat.continue_state(
        dialogue.state, executed.completion.tokens, answer, setting.protocol.earlier_thinking
    )
    used = len(dialogue.state) - len(consultation.prompt)
    if used + setting.actor.sampling.max_tokens > setting.protocol.response_tokens:
        consultation.ending = "token_limit"
