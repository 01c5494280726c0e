"""A synthetic clinic: a doctor asks questions, and the value of each is known exactly."""

from clinic_env.consultation import Action, Consultation, read_action
from clinic_env.env import ClinicEnv, group_of
from clinic_env.frozen import Rules, load
from clinic_env.vector import VectorClinic
from clinic_env.world import ClinicCase, World

__all__ = [
    "Action",
    "ClinicCase",
    "ClinicEnv",
    "Consultation",
    "Rules",
    "VectorClinic",
    "World",
    "group_of",
    "load",
    "read_action",
]
