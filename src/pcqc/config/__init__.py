"""Settings of a study and of its methods: what a researcher edits, typed and checked.

A study is one file in `config/studies/`; the methods are entries of `config/methods.yaml`, of which
a study may override single settings. Every field is documented where it stands.
"""

from pcqc.config.data import Benchmark, Clinic
from pcqc.config.load import ROOT, digest, load_study, tracking_uri
from pcqc.config.models import Decoding, Engine, ScratchModel
from pcqc.config.study import Continuation, Study, Tracking
from pcqc.config.training import Method, Protocol, Rl, Sft, TreeSearch

__all__ = [
    "ROOT",
    "Benchmark",
    "Clinic",
    "Continuation",
    "Decoding",
    "Engine",
    "Method",
    "Protocol",
    "Rl",
    "ScratchModel",
    "Sft",
    "Study",
    "Tracking",
    "TreeSearch",
    "digest",
    "load_study",
    "tracking_uri",
]
