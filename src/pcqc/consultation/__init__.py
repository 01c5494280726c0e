"""Consultations: the log that each leaves, and how they are played."""

from pcqc.consultation.log import Consultation, Dialogue, Response, Turn, require_answers
from pcqc.consultation.play import open_dialogues, open_with_question, play_on, roll_out
from pcqc.consultation.turns import RolloutContext, advance, ask_patient, sample_responses

__all__ = [
    "Consultation",
    "Dialogue",
    "Response",
    "RolloutContext",
    "Turn",
    "advance",
    "ask_patient",
    "open_dialogues",
    "open_with_question",
    "play_on",
    "require_answers",
    "roll_out",
    "sample_responses",
]
