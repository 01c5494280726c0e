"""PCQC with credit of thoughts; with `beta: 0` credit of thoughts alone (repairs.md, beside this).

Samples: as PCQC.
Credits: as PCQC; and the thought of each candidate by what a reader makes of it who sees the task
and the thought, but not the dialogue, compared with the others' thoughts at the same state.
Trains on: PCQC's tokens and, weighed by `thought_weight`, the candidates' thoughts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.prompts import thought
from pcqc.consultation import RolloutContext
from pcqc.engines.base import Failure
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc, QuestionBatch
from pcqc.methods.question_groups import Firsts, Judged, QuestionGroup
from pcqc.settings import Assumptions, Work
from pcqc.settings.yaml_reader import STRICT, Weight
from turn_credit.arithmetic import pooled_variance, same_state_credit
from turn_credit.thoughts import quadratic_scores

THOUGHT = "thought"  # term of the loss


@dataclass
class ThoughtBatch(QuestionBatch):
    """Groups of consultations, with credited questions and thoughts."""

    def metrics(self) -> dict[str, float]:
        """See `RolloutBatch.metrics`."""
        scores = [group.thought_scores for group in self.groups if group.thought_scores is not None]
        if not scores:
            return super().metrics()
        return {
            **super().metrics(),
            "credit/thought_score": float(np.mean([row.mean() for row in scores])),
            "credit/thought_spread": float(np.mean([row.std(ddof=1) for row in scores])),
        }

    def records(self) -> dict[str, list[dict]]:
        """See `RolloutBatch.records`; a thought's score is None where its reader failed."""
        records = super().records()
        for row, group in zip(records["candidate_groups"], self.groups, strict=True):
            known = group.thought_scores is not None
            for k, candidate in enumerate(row["candidates"]):
                candidate["thought_score"] = float(group.thought_scores[k]) if known else None
                candidate["thought_credit"] = group.spans[k][THOUGHT][2]
        return records


@settings(frozen=True, config=STRICT)
class PcqcThoughts(Pcqc):
    """See the module."""

    thought_weight: Weight = 1.0  # weight of the thoughts' loss, beside `beta`
    # who reads a thought: the frozen scorer or, in the clinic, one that knows its probabilities
    thought_reader: Literal["scorer", "world"] = "scorer"

    @property
    def needs(self) -> frozenset[str]:
        """See `Method.needs`."""
        return super().needs | {self.thought_reader}

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss."""
        return {**super().coefficients, THOUGHT: self.thought_weight}

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """See `Pcqc.judge`; the candidates' thoughts are read and scored too."""
        judged = super().judge(services, context, firsts, stage)
        groups = [group for row in judged.groups for group in row]
        with context.timed("scorer"):
            beliefs = iter(self._read(services, groups))
        for group in groups:
            correct = group.case.public.labels.index(group.case.answer)
            read = [next(beliefs) for _ in group.turn.responses]
            known = [belief for belief in read if not isinstance(belief, Failure)]
            if len(known) == len(read):
                group.thought_scores = quadratic_scores(known, correct)
            tokens = [response.completion.tokens for response in group.turn.responses]
            group.spans = [{THOUGHT: (0, context.chat.thinking_stop(row), 0.0)} for row in tokens]
        return judged

    def _read(
        self, services: Services, groups: Sequence[QuestionGroup]
    ) -> Sequence[np.ndarray | Failure]:
        """The reader's belief of every thought; where there is none it reads the task alone."""
        thoughts = [(g.case, thought(r.text)) for g in groups for r in g.turn.responses]
        if self.thought_reader == "world":
            assert services.world is not None
            return [services.world.kept(case, text) for case, text in thoughts]
        assert services.scorer is not None
        return services.scorer.probabilities([(case.public, text or ()) for case, text in thoughts])

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """See `Pcqc.credit`; thoughts are compared as questions are."""
        super().credit(groups)
        known = [(g, g.thought_scores) for g in groups if g.thought_scores is not None]
        pooled = pooled_variance([scores for _, scores in known])
        for group, scores in known:
            credits = same_state_credit(scores, self.divide, self.least_spread, pooled)
            credits[self.trained_candidates :] = 0
            group.credit_spans(credits)

    def collect_rollouts(self, *given: Any) -> ThoughtBatch:
        """See `RlMethod.collect_rollouts`."""
        return ThoughtBatch(**vars(super().collect_rollouts(*given)))

    def work(self, assumed: Assumptions) -> Work:
        """See `Method.work`; the scorer reads every thought."""
        own = super().work(assumed)
        read = assumed.inquiries * self.question_group if self.thought_reader == "scorer" else 0
        return replace(own, scores=own.scores + read)

    @property
    def words(self) -> str:
        """See `Method.words`."""
        return (
            f"{super().words}; each thought is credited by what it tells of the diagnosis to a "
            f"reader without the dialogue (weight {self.thought_weight:g})"
        )
