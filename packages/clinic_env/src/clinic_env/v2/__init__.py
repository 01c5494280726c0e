"""clinic-v2: four frozen worlds where planning pays, and what a player reaches of the best."""

from clinic_env.env import group_of
from clinic_env.v2.cases import SPLITS
from clinic_env.v2.consultations import Consultations
from clinic_env.v2.endpoint import Endpoint
from clinic_env.v2.env import ClinicEnv
from clinic_env.v2.handbook import handbook
from clinic_env.v2.own_process import FilePlayer
from clinic_env.v2.players import RULES, doctor
from clinic_env.v2.reading import Turn, read
from clinic_env.v2.score import Score, measure, table
from clinic_env.v2.values import CaseValues, Values
from clinic_env.v2.world import NAMES, World, load

__all__ = [
    "NAMES",
    "RULES",
    "SPLITS",
    "CaseValues",
    "ClinicEnv",
    "Consultations",
    "Endpoint",
    "FilePlayer",
    "Score",
    "Turn",
    "Values",
    "World",
    "doctor",
    "group_of",
    "handbook",
    "load",
    "measure",
    "read",
    "table",
]
