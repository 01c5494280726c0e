"""Sampling settings of the roles that write."""

from pcqc.cases.chat import ChatFormat
from pcqc.engines.base import Sampling
from pcqc.study import Decoding


def sampling(decoding: Decoding, chat: ChatFormat) -> Sampling:
    """The study's decoding, up to the end of a turn."""
    return Sampling(decoding.temperature, decoding.top_p, decoding.max_tokens, chat.end_of_turn)
