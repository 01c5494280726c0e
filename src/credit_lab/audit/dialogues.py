"""The tiny clinic's consultations as the methods get them, and back from training sequences.

Nothing of the methods is written a second time: their own functions read these consultations, and
what is trained on is read off the sequences that they make.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from credit_lab.audit.tabular import (
    ANSWER,
    ASK,
    Act,
    Course,
    Patient,
    State,
    Table,
    TinyClinic,
    after,
    visited,
)
from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER, Exchange
from pcqc.consultation import Consultation, Response, Turn
from pcqc.consultation.turns import read_response
from pcqc.engines.base import Completion
from pcqc.training.sequences import TrainingSequence

TOKENS_PER_EXCHANGE = 3  # marker, finding, the patient's answer


class Words:
    """Token ids of the tiny clinic; one token is one phrase.

    It has what reading a response needs of a `ChatFormat`, and nobody thinks here.
    """

    def __init__(self, clinic: TinyClinic):
        self.clinic = clinic
        self.labels = tuple(chr(ord("A") + option) for option in range(clinic.options))
        asked = [f"Is sign {finding} present?" for finding in range(clinic.findings)]
        self.texts = [QUESTION_MARKER, ANSWER_MARKER, *asked, *self.labels, "Absent.", "Present."]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.texts[i] for i in ids)

    def thinking_stop(self, action: Sequence[int]) -> int:
        return 0

    def tokens(self, act: Act) -> list[int]:
        """A response: its marker, then its question or label."""
        kind, content = act
        return [kind, 2 + content + (self.clinic.findings if kind == ANSWER else 0)]

    def act(self, tokens: Sequence[int]) -> Act:
        """The inverse of `tokens`."""
        kind, content = tokens
        return kind, content - 2 - (self.clinic.findings if kind == ANSWER else 0)

    def response(self, act: Act, patient: Patient, answered: bool) -> Response:
        """The response as the protocol reads it, with its question mask."""
        completion = Completion(self.tokens(act), [0.0, 0.0], True)
        read = read_response(cast(ChatFormat, self), completion, self.labels)
        if act[0] == ANSWER or not answered:
            return read
        said = self.texts[self._said(patient.findings[act[1]])]
        return Response(read.completion, read.text, read.action, read.question_start, said)

    def state_tokens(self, state: State) -> list[int]:
        """What the actor reads at a state."""
        pairs = ([*self.tokens((ASK, finding)), self._said(shown)] for finding, shown in state)
        return [token for one in pairs for token in one]

    def read_state(self, tokens: Sequence[int]) -> State:
        """The inverse of `state_tokens`."""
        found = []
        for i in range(0, len(tokens), TOKENS_PER_EXCHANGE):
            _, finding = self.act(tokens[i : i + 2])
            found.append((finding, tokens[i + 2] == self._said(True)))
        return tuple(found)

    def _said(self, shown: bool) -> int:
        return len(self.texts) - 2 + int(shown)

    def case(self, patient: Patient) -> Case:
        """The patient's case."""
        options = {label: f"disease {label}" for label in self.labels}
        facts = tuple(
            f"{self.texts[2 + finding]} {self.texts[self._said(shown)]}"
            for finding, shown in enumerate(patient.findings)
        )
        answer = self.labels[patient.option]
        name = f"{answer}-{patient.findings}"
        return Case(name, "tiny clinic", "Unwell.", "Which?", options, facts, answer)

    def turn(self, patient: Patient, state: State, acts: Sequence[Act]) -> Turn:
        """A state and the responses there, the executed one first."""
        answered = len(state) < self.clinic.turns - 1  # none follows a question of the last turn
        responses = tuple(self.response(act, patient, answered) for act in acts)
        return Turn(self.state_tokens(state), self.exchanges(state), responses)

    def exchanges(self, state: State) -> tuple[Exchange, ...]:
        """What was said before a state."""
        return tuple(
            Exchange(self.texts[2 + finding], self.texts[self._said(shown)])
            for finding, shown in state
        )

    def consultation(self, patient: Patient, course: Course) -> Consultation:
        """A complete consultation without unexecuted candidates."""
        pairs = zip(visited(patient, course), course, strict=True)
        turns = [self.turn(patient, state, [act]) for state, act in pairs]
        asked = tuple(content for kind, content in course if kind == ASK)[: self.clinic.turns - 1]
        ended = course[-1][0] == ANSWER
        return Consultation(
            self.case(patient).public,
            rollout=0,
            prompt=[],
            turns=turns,
            exchanges=self.exchanges(after(patient, asked)),
            ending="answer" if ended else "turn_limit",
            predicted=self.labels[course[-1][1]] if ended else None,
        )


def add_sequence(
    weights: Table, words: Words, sequence: TrainingSequence, term: str, scale: float
) -> None:
    """Add what a term of the loss pushes each token by: weight times advantage, times `scale`.

    At the sampling policy every ratio is 1, where the clipped objective's gradient is
    A grad log pi of each covered token (eq:question_objective).
    """
    if term not in sequence.terms:
        return
    found = sequence.terms[term]
    for place in np.flatnonzero(found.weights):
        start = place - place % TOKENS_PER_EXCHANGE
        number = words.clinic.states[words.read_state(sequence.tokens[:start])]
        push = scale * found.weights[place] * found.advantages[place]
        if place == start:
            weights.choice[number, sequence.tokens[place]] += push
        else:
            kind, content = words.act(sequence.tokens[start : start + 2])
            weights.content(kind)[number, content] += push
