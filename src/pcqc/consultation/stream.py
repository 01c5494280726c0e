"""Dialogues that each go on alone, where engines take requests up one by one.

No dialogue waits for the longest reply of a turn, nor for the candidates beside its own question:
these are sampled and answered while it goes on, and scored where the scorer computes beside the
others. What is drawn depends on the random streams alone, so the consultations are those that are
played turn by turn.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pcqc.consultation.log import Consultation, Dialogue, Response
from pcqc.consultation.turns import (
    RolloutContext,
    advance,
    inquiries,
    is_open,
    read,
    streams_of,
    width,
    with_answers,
)
from pcqc.engines.base import Failure, Request, Ticket
from pcqc.roles import Actor, Patient, Scorer
from pcqc.roles.scorer import Key, Pass, of_labels

# A role and what its engine is asked; sent back is what it gives for each request.
Steps = Generator[tuple[str, list[Request] | list[Pass]], list[Any], None]
# Where both engines take turns, the patient's turn ends when its requests are fewer than this share
# of the actor's: a long answer alone in a batch costs as much as with others beside it.
FEW = 0.25


def can_stream(context: RolloutContext) -> bool:
    """Whether both engines take requests up one by one, and the patient is one as they are."""
    roles = context.actor, context.patient
    return all(role.engine.streams for role in roles) and type(context.patient) is Patient


def _beside(scorer: Scorer | None) -> Scorer | None:
    """A scorer that reads while others write; one that takes turns with them would gain nothing."""
    beside = scorer and scorer.engine.streams and not scorer.engine.in_turns
    return scorer if beside else None


def stream_dialogues(
    context: RolloutContext,
    dialogues: Sequence[Dialogue],
    turns: int,
    candidates: int,
    name: str,
) -> list[Consultation]:
    """Play up to `turns` turns of each; several processes share the dialogues out."""
    context = replace(context, scorer=_beside(context.scorer))

    def play(part: Sequence[Dialogue]) -> list[tuple[Consultation, dict[Key, Any]]]:
        drive = _Drive(context)
        played = [_Played(context, drive, dialogue, turns, candidates, name) for dialogue in part]
        for one in played:
            drive.start(one.executed())
        drive.to_the_end()
        return [(one.whole(), one.scores) for one in played]

    with context.timed("rollout"):
        found = context.actor.engine.processes.map_sharded(play, dialogues)
    if context.scorer:
        scores = {key: row for _, of_one in found for key, row in of_one.items()}
        # What failed is asked for again with what was not read.
        context.scorer.ahead = {k: r for k, r in scores.items() if not isinstance(r, Failure)}
    return [consultation for consultation, _ in found]


@dataclass
class _Waiting:
    """Steps, and what they wait for."""

    steps: Steps
    found: list[Any] = field(default_factory=list)
    missing: int = 0


class _Drive:
    """Hands requests to the engines as they come up, until there are no more."""

    def __init__(self, context: RolloutContext):
        roles: dict[str, Actor | Patient] = {"actor": context.actor, "patient": context.patient}
        scorer = context.scorer
        self.engines = {name: role.engine for name, role in roles.items()}
        self.in_turns = all(engine.in_turns for engine in self.engines.values())
        self.answering = False
        self.submit: dict[str, Callable[[Any], Ticket]] = {
            name: partial(role.engine.submit, sampling=role.sampling)
            for name, role in roles.items()
        }
        if scorer:
            self.engines["scorer"] = scorer.engine
            self.submit["scorer"] = lambda one: scorer.engine.submit_choices(*one)
        self.tickets: dict[str, dict[Ticket, tuple[_Waiting, int]]] = {r: {} for r in self.engines}

    def start(self, steps: Steps) -> None:
        """Take steps up beside those in progress."""
        self._go_on(_Waiting(steps))

    def to_the_end(self) -> None:
        """Until all steps have ended."""
        while busy := self._busy():
            for role in busy:
                self._collect(role, wait=len(busy) == 1)

    def _busy(self) -> list[str]:
        """Roles to collect from.

        Engines that take turns would often run a few sequences each, at the price of many. So the
        actor goes on until as much waits for the patient, and then the patient for a while. What
        the scorer reads no dialogue waits for, so it is collected last.
        """
        counts = {role: len(tickets) for role, tickets in self.tickets.items() if tickets}
        if len(counts) > 1:
            counts.pop("scorer", None)
        if not self.in_turns or len(counts) < 2:
            return list(counts)
        if counts["patient"] >= counts["actor"]:
            self.answering = True
        elif counts["patient"] < FEW * counts["actor"]:
            self.answering = False
        return ["patient" if self.answering else "actor"]

    def _collect(self, role: str, wait: bool) -> None:
        for ticket, found in self.engines[role].collect(wait=wait).items():
            waiting, number = self.tickets[role].pop(ticket)
            waiting.found[number] = found
            waiting.missing -= 1
            if not waiting.missing:
                self._go_on(waiting)

    def _go_on(self, waiting: _Waiting) -> None:
        try:
            role, requests = waiting.steps.send(waiting.found or None)
        except StopIteration:
            return
        waiting.found, waiting.missing = [None] * len(requests), len(requests)
        for number, request in enumerate(requests):
            self.tickets[role][self.submit[role](request)] = waiting, number


@dataclass
class _Played:
    """A dialogue that goes on, and the candidates of its turns, which come when they come."""

    context: RolloutContext
    drive: _Drive
    dialogue: Dialogue
    turns: int
    width: int
    name: str
    candidates: dict[int, list[Response]] = field(default_factory=dict)
    scores: dict[Key, Any] = field(default_factory=dict)  # what the scorer read, or its failure

    def executed(self) -> Steps:
        """The dialogue's own requests, one after another; candidates are asked for beside them."""
        while is_open(self.dialogue, self.turns):
            count = width(self.context, self.dialogue, self.width)
            streams = streams_of(self.name, self.dialogue, count)
            (drawn,) = yield "actor", [Request(self.dialogue.state, streams[:1])]
            group = read(self.context, self.dialogue, drawn)
            if group[0].action.question and count > 1:
                # A copy of the dialogue as it is, at its turn.
                at = self.dialogue.branch(0)
                self.drive.start(self.beside(at, group[0], streams[1:]))
            yield from self._ask(self.dialogue, group)
            if count > 1 and group[0].answer is not None:
                self._score(self.dialogue, group)
            advance(self.context, self.dialogue, group)

    def beside(self, at: Dialogue, executed: Response, streams: tuple[int, ...]) -> Steps:
        """Requests of the other candidates at a state where the executed response asks."""
        (drawn,) = yield "actor", [Request(at.state, streams)]
        group = [executed, *read(self.context, at, drawn)]
        yield from self._ask(at, group, first=1)
        self.candidates[at.turn] = group[1:]
        self._score(at, group[1:])

    def _ask(self, at: Dialogue, group: list[Response], first: int = 0) -> Steps:
        """Have the group's responses answered in place, from the `first` one on."""
        every = inquiries(self.context, at, group, self.name)
        asked = {k: inquiry for k, inquiry in every.items() if k >= first}
        if asked:
            patient = self.context.patient
            said = yield "patient", [patient.request(one) for one in asked.values()]
            answers = map(patient.read, said)
            group[:] = with_answers(group, dict(zip(asked, answers, strict=True)))

    def _score(self, at: Dialogue, group: Sequence[Response]) -> None:
        """Have the scorer read the state and what each response adds to it, each once."""
        if scorer := self.context.scorer:
            before = at.consultation.exchanges
            for said in (before, *(response.adds_to(before) for response in group)):
                key = scorer.key((at.case.public, said))
                if key not in self.scores:
                    self.scores[key] = None
                    self.drive.start(self._read(scorer, key))

    def _read(self, scorer: Scorer, key: Key) -> Steps:
        rows = yield "scorer", scorer.passes(key)
        self.scores[key] = of_labels([row for (row,) in rows])

    def whole(self) -> Consultation:
        """The consultation with its candidates; it ends where the patient failed on one."""
        consultation = self.dialogue.consultation
        for number, others in sorted(self.candidates.items()):
            turn = consultation.turns[number]
            consultation.turns[number] = replace(turn, responses=(turn.executed, *others))
            if any(response.failure for response in others):
                # What was played beyond it meanwhile is left out, as no turn would have followed.
                del consultation.turns[number + 1 :]
                consultation.exchanges = turn.exchanges
                consultation.ending, consultation.predicted = "patient_failed", None
                break
        return consultation
