"""The actor (doctor): sees the dialogue's tokens, writes the next action."""

from collections.abc import Sequence

from pcqc.config import Decoding
from pcqc.engines.base import Completion, Engine, Request
from pcqc.protocol import ChatFormat
from pcqc.roles.decoding import sampling


class Actor:
    """Samples actions from dialogue states.

    It is handed token ids of the state O_t only; these are built from a `PublicCase` and from the
    patient's answers, so that neither facts nor the correct answer can reach it.
    """

    def __init__(self, engine: Engine, chat: ChatFormat, decoding: Decoding):
        self.engine = engine
        self.sampling = sampling(decoding, chat)

    def act(
        self, states: Sequence[Sequence[int]], streams: Sequence[tuple[int, ...]]
    ) -> list[list[Completion]]:
        """Sample one action per stream at each state.

        Args:
            states: token ids of each dialogue state.
            streams: random streams of each state; its first is the executed response.
        """
        requests = [Request(state, s) for state, s in zip(states, streams, strict=True)]
        return self.engine.generate(requests, self.sampling)
