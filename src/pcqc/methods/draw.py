"""What one update draws: consultations, candidate groups, their scores, and the figures of both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases import Case
from pcqc.config import Method
from pcqc.consultation import Consultation, Setting, roll_out
from pcqc.methods.assemble import UpdateBatch, assemble
from pcqc.methods.question_groups import QuestionGroup, score_groups
from pcqc.roles import Scorer


@dataclass
class Drawn:
    """One update's material.

    Attributes:
        cases: of the update.
        consultations: [cases][G_T].
        groups: scored question groups.
        batch: what the learner trains on.
        figures: metric name -> value, for the record.
    """

    cases: list[Case]
    consultations: list[list[Consultation]]
    groups: list[QuestionGroup]
    batch: UpdateBatch
    figures: dict[str, float]


def draw_update(
    setting: Setting,
    scorer: Scorer | None,
    method: Method,
    cases: Sequence[Case],
    *,
    seed: int,
    update: int,
) -> Drawn:
    """Draw an update's consultations and credit them.

    Args:
        setting: roles and rules.
        scorer: needed where the method has question credit.
        method: settings.
        cases: of the update.
        seed: of the run.
        update: number of the update; part of every random stream's name.
    """
    consultations = roll_out(
        setting,
        cases,
        rollouts=method.terminal_group,
        candidates=max(1, method.question_group),
        seed=seed,
        stage=f"update/{update}",
    )
    groups: list[QuestionGroup] = []
    if method.question_credit != "none":
        with setting.timed("scorer"):
            firsts = [(case, row[0]) for case, row in zip(cases, consultations, strict=True)]
            groups = score_groups(scorer, firsts)
    batch = assemble(method, cases, consultations, groups)
    figures = {**_consultation_figures(consultations), **_group_figures(groups)}
    return Drawn(list(cases), consultations, groups, batch, figures)


def _consultation_figures(consultations: Sequence[Sequence[Consultation]]) -> dict[str, float]:
    every = [c for row in consultations for c in row]
    candidates = sum(
        len(r.completion.tokens) for c in every for t in c.turns for r in t.responses[1:]
    )
    own = sum(c.actor_tokens for c in every)
    return {
        "turns": float(np.mean([c.inquiry_turns for c in every])),
        "tokens/actor": own / len(every),
        "tokens/actor_all": own + candidates,
        "ending/answer_share": float(np.mean([c.ending == "answer" for c in every])),
        "ending/turn_limit_share": float(np.mean([c.ending == "turn_limit" for c in every])),
    }


def _group_figures(groups: Sequence[QuestionGroup]) -> dict[str, float]:
    if not groups:
        return {}
    unparsed = [r.answer is None for g in groups for r in g.turn.responses]
    return {
        "credit/groups": len(groups),
        "credit/zero_group_share": float(np.mean([not g.credits.any() for g in groups])),
        "credit/utility_spread": float(np.mean([g.spread for g in groups])),
        "credit/utility_mean": float(np.mean([g.utilities.mean() for g in groups])),
        "credit/gain_executed": float(np.mean([g.gains[0] for g in groups])),
        "credit/gain_best": float(np.mean([g.gains.max() for g in groups])),
        "credit/unparsed_share": float(np.mean(unparsed)),
    }
