"""Dialogues that each go on alone, where engines take requests up one by one.

No dialogue waits for the longest reply of a turn. What is drawn depends on the random streams
alone, so the consultations are those that are played turn by turn.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcqc.consultation.log import Consultation, Dialogue
from pcqc.consultation.turns import (
    RolloutContext,
    advance,
    inquiries,
    is_open,
    kept,
    read,
    streams_of,
    width,
    with_answers,
)
from pcqc.engines.base import Request, Ticket
from pcqc.roles import Actor, Patient

# A role and what its engine is asked; sent back is what it gives for each request.
Steps = Generator[tuple[str, list[Request]], list[Any], None]


def can_stream(context: RolloutContext) -> bool:
    """Whether both engines take requests up one by one, and the patient is one as they are."""
    roles = context.actor, context.patient
    return all(role.engine.streams for role in roles) and type(context.patient) is Patient


def stream_dialogues(
    context: RolloutContext,
    dialogues: Sequence[Dialogue],
    turns: int,
    candidates: int,
    name: str,
) -> list[Consultation]:
    """Play up to `turns` turns of each; several processes share the dialogues out."""

    def play(part: Sequence[Dialogue]) -> list[Consultation]:
        steps = [_steps(context, dialogue, turns, candidates, name) for dialogue in part]
        _drive(context, steps)
        return [dialogue.consultation for dialogue in part]

    with context.timed("rollout"):
        return context.actor.engine.processes.map_sharded(play, dialogues)


def _steps(
    context: RolloutContext, dialogue: Dialogue, turns: int, candidates: int, name: str
) -> Steps:
    """A dialogue's requests, one after another."""
    while is_open(dialogue, turns):
        streams = streams_of(name, dialogue, width(context, dialogue, candidates))
        (drawn,) = yield "actor", [Request(dialogue.state, streams)]
        group = kept(read(context, dialogue, drawn))
        if asked := inquiries(context, dialogue, group, name):
            said = yield "patient", [context.patient.request(one) for one in asked.values()]
            answers = map(context.patient.read, said)
            group = with_answers(group, dict(zip(asked, answers, strict=True)))
        advance(context, dialogue, group)


@dataclass
class _Waiting:
    """A dialogue's steps, and what it waits for."""

    steps: Steps
    found: list[Any] = field(default_factory=list)
    missing: int = 0


def _drive(context: RolloutContext, every: Sequence[Steps]) -> None:
    """Hand requests to the engines as they come up, until no dialogue has any."""
    roles: dict[str, Actor | Patient] = {"actor": context.actor, "patient": context.patient}
    tickets: dict[str, dict[Ticket, tuple[_Waiting, int]]] = {role: {} for role in roles}

    def go_on(waiting: _Waiting, found: list[Any] | None) -> None:
        try:
            role, requests = waiting.steps.send(found) if found else next(waiting.steps)
        except StopIteration:
            return
        waiting.found, waiting.missing = [None] * len(requests), len(requests)
        for number, request in enumerate(requests):
            ticket = roles[role].engine.submit(request, roles[role].sampling)
            tickets[role][ticket] = waiting, number

    for steps in every:
        go_on(_Waiting(steps), None)
    while any(tickets.values()):
        alone = sum(map(bool, tickets.values())) == 1
        for role, submitted in tickets.items():
            finished = roles[role].engine.collect(wait=alone) if submitted else {}
            for ticket, completions in finished.items():
                waiting, number = submitted.pop(ticket)
                waiting.found[number] = completions
                waiting.missing -= 1
                if not waiting.missing:
                    go_on(waiting, waiting.found)
