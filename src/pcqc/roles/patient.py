"""The patient responder: sees the facts and one question, answers it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcqc.cases.chat import ChatFormat
from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling
from pcqc_base.settings import Decoding


@dataclass(frozen=True)
class Inquiry:
    """One request to the patient: facts z, the question, and the answer's random stream.

    Attributes:
        imagining: the prompt of a patient without facts, which takes the place of both.
    """

    facts: tuple[str, ...]
    question: str
    stream: int
    imagining: str | None = None


class Patient:
    """Answers from facts alone (tab:pipeline_visibility): no task, options or dialogue."""

    def __init__(self, engine: Engine, chat: ChatFormat, decoding: Decoding):
        self.engine = engine
        self.chat = chat
        self.sampling = Sampling.of(decoding, chat.ends)

    def answer(self, inquiries: Sequence[Inquiry]) -> list[str | Failure]:
        """The answer to each inquiry as text, or a served patient's failure."""
        requests = [self.request(inquiry) for inquiry in inquiries]
        return [self.read(results) for results in self.engine.generate(requests, self.sampling)]

    def request(self, inquiry: Inquiry) -> Request:
        """What the engine gets for an inquiry."""
        if inquiry.imagining is not None:
            return Request(self.chat.ask(inquiry.imagining), (inquiry.stream,))
        return Request(self.chat.patient(inquiry.facts, inquiry.question), (inquiry.stream,))

    def read(self, completions: Sequence[Completion | Failure]) -> str | Failure:
        """The answer in what the engine gives for an inquiry."""
        (result,) = completions
        if isinstance(result, Failure):
            return result
        return self.chat.reply(result.tokens)
