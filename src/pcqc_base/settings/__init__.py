"""Groups of settings that the core reads, typed and checked; meaning and default of each.

`pcqc_study.study_file` reads them from a study's file. A method's own settings stand in its module
of `pcqc.methods`; `config/methods.yaml` gives values to each method.
"""

from pcqc_base.settings.data import Benchmark, Clinic, Data, RawFile
from pcqc_base.settings.every_method import Method
from pcqc_base.settings.models import Decoding, Models, Pretrained, ScratchModel, Server, Servers
from pcqc_base.settings.placement import Assumptions, EnginePlacement, LearnerPlacement, Placement
from pcqc_base.settings.training import Protocol, Rl, Sft

__all__ = [
    "Assumptions",
    "Benchmark",
    "Clinic",
    "Data",
    "Decoding",
    "EnginePlacement",
    "LearnerPlacement",
    "Method",
    "Models",
    "Placement",
    "Pretrained",
    "Protocol",
    "RawFile",
    "Rl",
    "ScratchModel",
    "Server",
    "Servers",
    "Sft",
]
