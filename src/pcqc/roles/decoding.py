"""How the roles that write sample their turns."""

from pcqc.config import Decoding
from pcqc.engines.base import Sampling
from pcqc.protocol import ChatFormat


def sampling(decoding: Decoding, chat: ChatFormat) -> Sampling:
    """The study's decoding, up to the end of a turn."""
    return Sampling(decoding.temperature, decoding.top_p, decoding.max_tokens, chat.end_of_turn)
