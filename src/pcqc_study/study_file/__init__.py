"""The file of a study: read, checked, and varied.

A study is one file in `config/studies/`. Its methods are the entries of `config/methods.yaml`, of
which it may override single settings. Meaning and default of a setting stand in
`pcqc_base.settings`, of what one method alone has in its module; `study.py` lists the groups.
"""

from pcqc_base.settings.continuation import START
from pcqc_study.study_file.load import load_study, report_to, tracking_uri
from pcqc_study.study_file.study import Study

__all__ = ["START", "Study", "load_study", "report_to", "tracking_uri"]
