"""Credit for the turns and questions of a dialogue: numbers in, numbers out; numpy alone."""

from turn_credit.arithmetic import (
    diagnostic_gain,
    executed_local_credit,
    expected_probability,
    leave_one_out,
    pooled_variance,
    same_state_credit,
    small_spread_share,
    standardise,
    terminal_advantages,
)
from turn_credit.group import Group, Ragged, join
from turn_credit.questions import c3, executed_local, expected_answer, pcqc, same_state_q1
from turn_credit.registry import CREDITS, Credit, credit, credit_update, table
from turn_credit.tokens import Span, Term, token_advantages
from turn_credit.tree import Tree, atpo
from turn_credit.turns import gigpo, grpo, igpo, mt_grpo, share_alone, tips, tips_scale, vineppo
from turn_credit.turns_process import ProcessGroup, a2tgpo, arew, critiques_of, infopo, itpo

__all__ = [
    "CREDITS",
    "Credit",
    "Group",
    "ProcessGroup",
    "Ragged",
    "Span",
    "Term",
    "Tree",
    "a2tgpo",
    "arew",
    "atpo",
    "c3",
    "credit",
    "credit_update",
    "critiques_of",
    "diagnostic_gain",
    "executed_local",
    "executed_local_credit",
    "expected_answer",
    "expected_probability",
    "gigpo",
    "grpo",
    "igpo",
    "infopo",
    "itpo",
    "join",
    "leave_one_out",
    "mt_grpo",
    "pcqc",
    "pooled_variance",
    "same_state_credit",
    "same_state_q1",
    "share_alone",
    "small_spread_share",
    "standardise",
    "table",
    "terminal_advantages",
    "tips",
    "tips_scale",
    "token_advantages",
    "vineppo",
]
