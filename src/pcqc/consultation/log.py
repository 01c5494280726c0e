"""A consultation's log of token ids, turn by turn; it only grows.

What the actor sampled is what is trained: its ids are kept, never decoded and tokenised again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from pcqc.cases.case import Case
from pcqc.cases.prompts import Action, Exchange
from pcqc.cases.public_case import PublicCase
from pcqc.engines.base import Completion, Failure
from pcqc_base.errors import UserError

Ending = Literal[
    "answer", "invalid_answer", "no_action", "turn_limit", "token_limit", "patient_failed"
]


@dataclass(frozen=True)
class Response:
    """One sampled response of the actor.

    Attributes:
        completion: its tokens and the engine's log-probabilities.
        text: decoded, thinking included.
        action: what it says.
        question_start: index of its first question token, None if it asks no question.
        answer: the patient's answer to its question, None where it was not asked.
        failure: why a served patient did not answer.
    """

    completion: Completion
    text: str
    action: Action
    question_start: int | None
    answer: str | None = None
    failure: Failure | None = None

    def adds_to(self, exchanges: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
        """The exchanges after it: with its own, or unchanged where it got no answer."""
        if self.answer is None:
            return exchanges
        return (*exchanges, Exchange(self.action.question, self.answer))


@dataclass(frozen=True)
class Turn:
    """One turn: the state O_t, and the responses sampled there; the first is executed.

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
        """The response that continues the consultation: q_1, if it asks a question."""
        return self.responses[0]

    def all_ask(self, count: int) -> bool:
        """Whether it has `count` responses, and each is a question that was answered."""
        return len(self.responses) == count and all(r.answer is not None for r in self.responses)


@dataclass
class Consultation:
    """One consultation of a case.

    Attributes:
        case: what the actor sees of it.
        rollout: number of the consultation among those of the case, from 0.
        prompt: token ids of the first state.
        turns: so far, in order.
        exchanges: questions and answers of the turns so far.
        ending: how it ended; None while it goes on.
        predicted: label of a valid final answer.
    """

    case: PublicCase
    rollout: int
    prompt: list[int]
    turns: list[Turn] = field(default_factory=list)
    exchanges: tuple[Exchange, ...] = ()
    ending: Ending | None = None
    predicted: str | None = None

    @property
    def executed(self) -> list[tuple[list[int], list[int]]]:
        """Token ids of each turn's state and of its executed response."""
        return [(turn.state, turn.executed.completion.tokens) for turn in self.turns]

    @property
    def inquiry_turns(self) -> int:
        """Non-final interaction attempts (Q/ep. counts these)."""
        return sum(turn.executed.action.kind != "final" for turn in self.turns)

    def is_correct(self, case: Case) -> bool:
        """Whether it ended with the case's correct diagnosis as a valid final answer."""
        return self.predicted == case.answer

    @property
    def actor_tokens(self) -> int:
        """Tokens that the actor generated in the consultation itself."""
        return sum(len(turn.executed.completion.tokens) for turn in self.turns)


@dataclass
class Dialogue:
    """A consultation in progress, with the facts that only the patient sees.

    Attributes:
        case: with its facts.
        consultation: its log.
        state: token ids that the actor sees next.
        lineage: names its random streams, beside case and turn: the number of the rollout, and
            where a copy branched off from it.
    """

    case: Case
    consultation: Consultation
    state: list[int]
    lineage: str

    @property
    def turn(self) -> int:
        """Number of the turn that comes next, from 0."""
        return len(self.consultation.turns)

    def branch(self, candidate: int) -> "Dialogue":
        """A copy to continue with another response; candidate 0 keeps the lineage."""
        lineage = f"{self.lineage}.{self.turn}:{candidate}" if candidate else self.lineage
        consultation = replace(self.consultation, turns=list(self.consultation.turns))
        return replace(self, consultation=consultation, lineage=lineage)

    @classmethod
    def before(cls, case: Case, consultation: Consultation, turn: int, lineage: str) -> "Dialogue":
        """A consultation as it was before one of its turns, to be played on from there."""
        next_turn = consultation.turns[turn]
        earlier = replace(
            consultation,
            turns=consultation.turns[:turn],
            exchanges=next_turn.exchanges,
            ending=None,
            predicted=None,
        )
        return cls(case, earlier, list(next_turn.state), lineage)


def require_answers(consultations: Iterable[Consultation]) -> None:
    """Raise UserError where the patient failed: an evaluation leaves no case out."""
    consultations = list(consultations)
    responses = (r for c in consultations for turn in c.turns for r in turn.responses)
    if failures := [response.failure for response in responses if response.failure]:
        raise UserError(
            f"the patient's server failed in {len(failures)} answers of {len(consultations)} "
            f"consultations ({failures[0]}); check the server and rerun"
        )
