"""Dialogues that each go on alone, where engines accept requests one by one.

No dialogue waits for the longest reply of a turn, nor for the candidates beside its own question:
these are sampled and answered while it goes on, and scored at the same time where the scorer has an
engine of its own. What is drawn depends on the random streams alone, so the consultations are those
that are played turn by turn; on a GPU with `placement.deterministic` only (docs/engines.md).
"""

import time
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
    read_responses,
    streams_of,
    width,
    with_answers,
)
from pcqc.engines.base import Failure, Request, Ticket
from pcqc.roles import Actor, Patient, Scorer
from pcqc.roles.scorer import Key, Pass

# Yields a role and what its engine is asked; is sent the result of each request.
Steps = Generator[tuple[str, list[Request] | list[Pass]], list[Any], None]
# Where both engines take turns, the patient's turn ends when its requests are fewer than this share
# of the actor's: a long answer alone in a batch costs as much as with others beside it.
FEW = 0.25
# Seconds until engines that compute between calls are asked again.
PAUSE = 0.001


def can_stream(context: RolloutContext) -> bool:
    """Whether both engines accept requests one by one, and nothing wraps the patient."""
    roles = context.actor, context.patient
    return all(role.engine.streams for role in roles) and type(context.patient) is Patient


def stream_dialogues(
    context: RolloutContext,
    dialogues: Sequence[Dialogue],
    turns: int,
    candidates: int,
    name: str,
) -> list[Consultation]:
    """Play up to `turns` turns of each.

    Of several processes each begins with its part, as many at once as its engine holds. A process
    whose dialogue has ended begins another, and after its own part one of another process's.
    """
    scorer = context.scorer
    # A scorer that takes turns with the others would gain nothing.
    if scorer and (scorer.engine.in_turns or not scorer.engine.streams):
        scorer = None
    context = replace(context, scorer=scorer)

    engine = context.actor.engine
    processes, scheduler = engine.processes, _Scheduler(context)
    numbers, streamed = processes.queue(len(dialogues)), {}

    def one_after_another() -> Steps:
        for number in numbers:
            dialogue = _Streamed(context, scheduler, dialogues[number], turns, candidates, name)
            streamed[number] = dialogue
            yield from dialogue.play()

    with context.timed("rollout"):
        own = len(processes.part(len(dialogues)))
        for _ in range(own if processes.count == 1 else min(own, engine.at_once)):
            scheduler.start(one_after_another())
        scheduler.run()
        mine = {number: (d.consultation(), d.scores) for number, d in streamed.items()}
        played = {number: row for part in processes.gather(mine) for number, row in part.items()}
    if scorer:
        in_order = (played[number][1] for number in range(len(dialogues)))
        scores = {key: row for rows in in_order for key, row in rows.items()}
        # A failed read is left out, so that the scorer is asked for it again.
        scorer.read_during_rollouts = {
            key: row for key, row in scores.items() if not isinstance(row, Failure)
        }
    return [played[number][0] for number in range(len(dialogues))]


@dataclass
class _Waiting:
    """Steps, the results of their last requests so far, and how many are missing."""

    steps: Steps
    results: list[Any] = field(default_factory=list)
    missing: int = 0


class _Scheduler:
    """Hands requests to the engines as they come up, until there are no more."""

    def __init__(self, context: RolloutContext):
        roles: dict[str, Actor | Patient] = {"actor": context.actor, "patient": context.patient}
        scorer = context.scorer
        self.engines = {name: role.engine for name, role in roles.items()}
        self.in_turns = all(engine.in_turns for engine in self.engines.values())
        self.patients_turn = False
        self.submit: dict[str, Callable[[Any], Ticket]] = {
            name: partial(role.engine.submit, sampling=role.sampling)
            for name, role in roles.items()
        }
        if scorer:
            self.engines["scorer"] = scorer.engine
            self.submit["scorer"] = lambda labels: scorer.engine.submit_choices(*labels)
        self.tickets: dict[str, dict[Ticket, tuple[_Waiting, int]]] = {r: {} for r in self.engines}

    def start(self, steps: Steps) -> None:
        """Take steps up beside those in progress."""
        self._continue(_Waiting(steps))

    def run(self) -> None:
        """Until all steps have ended."""
        while roles := self._roles_to_collect():
            idle = len(roles) > 1
            for role in roles:
                engine = self.engines[role]
                finished = engine.collect(wait=len(roles) == 1)
                idle = idle and not finished and not engine.in_turns
                for ticket, result in finished.items():
                    waiting, number = self.tickets[role].pop(ticket)
                    waiting.results[number] = result
                    waiting.missing -= 1
                    if not waiting.missing:
                        self._continue(waiting)
            if idle:
                time.sleep(PAUSE)

    def _roles_to_collect(self) -> list[str]:
        """Roles with requests in progress, of which those that take turns have one at a time.

        A batch of few sequences costs as much as one of many. So the actor goes on until the
        patient has as many requests as it, and then the patient until it has few (`FEW`). No
        dialogue waits for the scorer, so it is collected last.
        """
        counts = {role: len(tickets) for role, tickets in self.tickets.items() if tickets}
        if len(counts) > 1:
            counts.pop("scorer", None)
        if not self.in_turns or len(counts) < 2:
            return list(counts)
        if counts["patient"] >= counts["actor"]:
            self.patients_turn = True
        elif counts["patient"] < FEW * counts["actor"]:
            self.patients_turn = False
        return ["patient" if self.patients_turn else "actor"]

    def _continue(self, waiting: _Waiting) -> None:
        """Send the steps their results, and submit what they ask for next."""
        try:
            role, requests = waiting.steps.send(waiting.results or None)
        except StopIteration:
            return
        waiting.results, waiting.missing = [None] * len(requests), len(requests)
        for number, request in enumerate(requests):
            self.tickets[role][self.submit[role](request)] = waiting, number


@dataclass
class _Streamed:
    """A dialogue that goes on, with the candidates of its turns as they arrive.

    Attributes:
        turns: to play at most.
        width: responses to sample at a state of the case's first consultation.
        candidates: turn -> its unexecuted candidates.
        scores: what the scorer read, or its failure.
    """

    context: RolloutContext
    scheduler: _Scheduler
    dialogue: Dialogue
    turns: int
    width: int
    name: str
    candidates: dict[int, list[Response]] = field(default_factory=dict)
    scores: dict[Key, Any] = field(default_factory=dict)

    def play(self) -> Steps:
        """The dialogue's own requests, one after another; candidates are asked for beside them."""
        while is_open(self.dialogue, self.turns):
            count = width(self.context, self.dialogue, self.width)
            streams = streams_of(self.name, self.dialogue, count)
            (completions,) = yield "actor", [Request(self.dialogue.state, streams[:1])]
            group = read_responses(self.context, self.dialogue, completions)
            if group[0].action.question and count > 1:
                state = self.dialogue.branch(0)  # a copy of the dialogue as it is, at its turn
                self.scheduler.start(self._candidates(state, group[0], streams[1:]))
            yield from self._ask(self.dialogue, group)
            if count > 1 and group[0].answer is not None:
                self._score(self.dialogue, group)
            advance(self.context, self.dialogue, group)

    def _candidates(self, state: Dialogue, executed: Response, streams: tuple[int, ...]) -> Steps:
        """Requests of the other candidates at a state where the executed response asks."""
        (completions,) = yield "actor", [Request(state.state, streams)]
        group = [executed, *read_responses(self.context, state, completions)]
        yield from self._ask(state, group, first=1)
        self.candidates[state.turn] = group[1:]
        self._score(state, group[1:])

    def _ask(self, state: Dialogue, group: list[Response], first: int = 0) -> Steps:
        """Have the group's responses answered in place, from the `first` on."""
        of_group = inquiries(self.context, state, group, self.name)
        asked = {k: inquiry for k, inquiry in of_group.items() if k >= first}
        if asked:
            patient = self.context.patient
            results = yield "patient", [patient.request(inquiry) for inquiry in asked.values()]
            answers = map(patient.read, results)
            group[:] = with_answers(group, dict(zip(asked, answers, strict=True)))

    def _score(self, state: Dialogue, group: Sequence[Response]) -> None:
        """Have the scorer read the state and what each response adds to it, each once."""
        if scorer := self.context.scorer:
            before = state.consultation.exchanges
            for exchanges in (before, *(response.adds_to(before) for response in group)):
                key = scorer.key((state.case.public, exchanges))
                if key not in self.scores:
                    self.scores[key] = None
                    self.scheduler.start(self._read(scorer, key))

    def _read(self, scorer: Scorer, key: Key) -> Steps:
        reading = scorer.reading(key)
        rows = yield "scorer", reading.passes
        self.scores[key] = reading.logprobs([row for (row,) in rows])

    def consultation(self) -> Consultation:
        """The consultation with its candidates; it ends where the patient failed on one."""
        consultation = self.dialogue.consultation
        for number, others in sorted(self.candidates.items()):
            turn = consultation.turns[number]
            consultation.turns[number] = replace(turn, responses=(turn.executed, *others))
            if any(response.failure for response in others):
                # Played turn by turn, no turn would have followed.
                del consultation.turns[number + 1 :]
                consultation.exchanges = turn.exchanges
                consultation.ending, consultation.predicted = "patient_failed", None
                break
        return consultation
