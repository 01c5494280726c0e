"""The reward of a complete consultation, for all methods but ATPO.

ATPO's is `tree_reward` in `atpo/search_and_pruning.py`.
"""

from pcqc.cases.case import Case
from pcqc.consultation import Consultation


def outcome_reward(case: Case, consultation: Consultation) -> float:
    """1 for a correct valid final answer, else 0 (app:candidate_protocol)."""
    return float(consultation.is_correct(case))
