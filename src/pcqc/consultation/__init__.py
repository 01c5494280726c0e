"""Consultations: the log that each leaves, and how they are played."""

from pcqc.consultation.log import Consultation, Dialogue, Ending, Response, Turn, require_answers
from pcqc.consultation.play import (
    Opening,
    Setting,
    advance,
    answer,
    continue_from,
    open_dialogues,
    respond,
    roll_out,
)

__all__ = [
    "Consultation",
    "Dialogue",
    "Ending",
    "Opening",
    "Response",
    "Setting",
    "Turn",
    "advance",
    "answer",
    "continue_from",
    "open_dialogues",
    "require_answers",
    "respond",
    "roll_out",
]
