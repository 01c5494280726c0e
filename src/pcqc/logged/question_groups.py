"""What is logged of candidate questions: numbers of an update, and every group as a row."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from turn_credit.arithmetic import small_spread_share

if TYPE_CHECKING:
    from pcqc.methods.question_groups import QuestionGroup


def group_metrics(groups: "Sequence[QuestionGroup]") -> dict[str, float]:
    """How far the candidates differed in utility, and what the credit made of it."""
    if not groups:
        return {}
    unparsed = [r.answer is None for g in groups for r in g.turn.responses]
    distinct: dict[int, list[int]] = {}  # turn, from 1 -> different questions at each state
    for group in groups:
        questions = {r.action.question for r in group.turn.responses if r.action.question}
        distinct.setdefault(group.number + 1, []).append(len(questions))
    return {
        "credit/groups": len(groups),
        "credit/zero_group_share": float(np.mean([not g.credits.any() for g in groups])),
        "credit/small_spread_share": small_spread_share(
            [group.utility_std for group in groups], [group.credits for group in groups]
        ),
        "credit/utility_spread": float(np.mean([g.utility_std for g in groups])),
        "credit/utility_mean": float(np.mean([g.utilities.mean() for g in groups])),
        "credit/gain_executed": float(np.mean([g.gains[0] for g in groups])),
        "credit/gain_best": float(np.mean([g.gains.max() for g in groups])),
        "credit/unparsed_share": float(np.mean(unparsed)),
        **{
            f"credit/distinct_questions_turn_{turn}": float(np.mean(counts))
            for turn, counts in sorted(distinct.items())
        },
    }


def group_row(group: "QuestionGroup", trained: int) -> dict:
    """A candidate group as plain data: questions, answers, and the credit of each.

    Args:
        group: scored and credited.
        trained: how many of its candidates are trained on, the executed one first.
    """
    return {
        "case_id": group.case.case_id,
        "turn": group.number,
        "baseline": group.baseline,
        "spread": group.utility_std,
        "initial": group.case.initial,
        "options": group.case.options,
        "answer_label": group.case.answer,
        "history": [dataclasses.asdict(e) for e in group.turn.exchanges],
        "candidates": [
            {
                "response": response.text,
                "question": response.action.question,
                "answer": response.answer,
                "utility": float(group.utilities[k]),
                "gain": float(group.gains[k]),
                "credit": float(group.credits[k]),
                "executed": k == 0,
                "supervised": k < trained and response.question_start is not None,
            }
            for k, response in enumerate(group.turn.responses)
        ],
    }
