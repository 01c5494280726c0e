"""The reward of a complete consultation."""

from pcqc.cases.case import Case
from pcqc.consultation import Consultation


def correctness(case: Case, consultation: Consultation) -> float:
    """1 for a correct valid final answer, else 0 (app:candidate_protocol).

    ATPO has its own: `tree_reward` in `atpo/search.py`.
    """
    return float(consultation.is_correct(case))
