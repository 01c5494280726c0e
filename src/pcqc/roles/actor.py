"""The actor (doctor): sees the dialogue's tokens, writes the next action."""

from collections.abc import Sequence
from typing import cast

from pcqc.cases.chat import ChatFormat
from pcqc.engines.base import Completion, Engine, Request, Sampling
from pcqc_base.settings import Decoding


class Actor:
    """Samples actions from dialogue states.

    It gets only token ids of the state O_t, which are built from a `PublicCase` and the patient's
    answers, so neither facts nor the correct answer can reach it.
    """

    def __init__(self, engine: Engine, chat: ChatFormat, decoding: Decoding):
        self.engine = engine
        self.sampling = Sampling.of(decoding, chat.ends)

    def act(
        self, states: Sequence[Sequence[int]], streams: Sequence[tuple[int, ...]]
    ) -> list[list[Completion]]:
        """Sample one action per stream at each state.

        Args:
            states: token ids of each dialogue state.
            streams: random streams of each state; its first is the executed response.
        """
        requests = [Request(state, s) for state, s in zip(states, streams, strict=True)]
        # The actor is never served: only an engine behind a network returns failures.
        return cast(list[list[Completion]], self.engine.generate(requests, self.sampling))
