"""Actor, patient and scorer: each sees what the paper's information-access table grants it."""

from pcqc.roles.actor import Actor
from pcqc.roles.patient import Patient
from pcqc.roles.scorer import Scorer

__all__ = ["Actor", "Patient", "Scorer"]
