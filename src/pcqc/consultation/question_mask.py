"""The question mask: which tokens of a response are its question (app:candidate_protocol).

It covers what follows the first `Question:` marker of the visible part (the text after the
thinking), to the end of the response. The mask is computed on the sampled ids. Which responses have
one is decided in `turns.read_response`, and which get credit in `methods/sequences.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import QUESTION_MARKER, visible


def question_start(chat: ChatFormat, response: Sequence[int]) -> int | None:
    """Index of the first question token of a response, or None without a marker."""
    return marker_stop(chat, response, QUESTION_MARKER)


def marker_stop(chat: ChatFormat, response: Sequence[int], marker: str) -> int | None:
    """Index of the first token after a marker of the visible part, or None without it.

    It is the first index before which the decoded text holds the whole marker: a token that the
    marker shares with its neighbour counts as marker.
    """
    ids = list(response)

    def holds(length: int) -> bool:
        return marker in visible(chat.response(ids[:length]))

    if not holds(len(ids)):
        return None
    # Before the thinking has ended, other text is visible than after it.
    return bisect_left(range(len(ids) + 1), True, lo=chat.thinking_stop(ids), key=holds)
