"""The reward of a complete consultation."""

from pcqc.cases.case import Case
from pcqc.consultation import Consultation
from pcqc.study import TreeSearch


def correctness(case: Case, consultation: Consultation) -> float:
    """1 for a correct valid final answer, else 0: GRPO, PCQC, controls (app:candidate_protocol)."""
    return float(consultation.is_correct(case))


def tree_reward(case: Case, consultation: Consultation, rules: TreeSearch) -> float:
    """ATPO's: for the correct final answer, another valid one, or none (app:pcqc_frozen_setup)."""
    if consultation.is_correct(case):
        return rules.reward_correct
    return rules.reward_none if consultation.predicted is None else rules.reward_wrong
