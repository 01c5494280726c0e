"""Consultations: the log that each leaves, and how they are played."""

from pcqc.consultation.log import Consultation, Dialogue, Ending, Response, Turn, require_answers
from pcqc.consultation.play import Opening, continue_from, open_dialogues, play_on, roll_out
from pcqc.consultation.turns import RolloutContext, advance, ask_patient, sample_responses

__all__ = [
    "Consultation",
    "Dialogue",
    "Ending",
    "Opening",
    "Response",
    "RolloutContext",
    "Turn",
    "advance",
    "ask_patient",
    "continue_from",
    "open_dialogues",
    "play_on",
    "require_answers",
    "roll_out",
    "sample_responses",
]
