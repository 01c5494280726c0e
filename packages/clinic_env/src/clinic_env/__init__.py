"""A synthetic clinic: a doctor asks questions, and the value of each is known exactly.

The benchmark is `clinic_env.v2`. What this module lists is `clinic-v1`.
"""

from clinic_env.consultation import Action, Consultation, read_action
from clinic_env.env import ClinicEnv, group_of
from clinic_env.frozen import Rules, load
from clinic_env.registration import GYMNASIUM_NAMES
from clinic_env.vector import VectorClinic
from clinic_env.world import ClinicCase, World

__all__ = [
    "GYMNASIUM_NAMES",
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
