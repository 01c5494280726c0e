"""Settings of a study and of its methods: what a researcher edits, typed and checked.

A study is one file in `config/studies/`. Its methods are the entries of `config/methods.yaml`, of
which it may override single settings. Meaning and default of a field stand where it is declared:
in `study.py`, for groups in `pcqc_base.settings`, for what one method alone has in its module.
"""

from pcqc_study.settings.load import load_study, report_to, tracking_uri
from pcqc_study.settings.study import START, Continuation, Study, Tracking, Ungrounded

__all__ = [
    "START",
    "Continuation",
    "Study",
    "Tracking",
    "Ungrounded",
    "load_study",
    "report_to",
    "tracking_uri",
]
