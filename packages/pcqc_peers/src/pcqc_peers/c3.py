"""C3 (Chen et al. 2026) on PCQC's candidates; docs/credits.md compares the two.

Samples: as PCQC, and `continuations` consultations that go on from each candidate.
Credits: each question with the mean reward of these, less that of the other candidates.
Trains on: as PCQC.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.consultation import RolloutContext
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import Firsts, Judged, groups_of_values, states_of
from pcqc_base.settings.types import STRICT, Count, Weight
from pcqc_peers.continuations import after_candidates, continue_all


@settings(frozen=True, config=STRICT)
class C3(Pcqc):
    """C3's settings and its judgement of candidates; it samples and trains as PCQC."""

    continuations: Count = 1  # consultations played on from each candidate
    divide: Literal["none"] = "none"
    least_spread: Weight = 0.0

    scorer_during_rollouts: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent; no scorer."""
        return super().needs - {"scorer"}

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """Mean reward of the consultations that go on from each candidate."""
        places = states_of(firsts)
        every = [after_candidates(context, *firsts[i], number) for i, number in places]
        flat = [dialogue for row in every for dialogue in row]
        played = continue_all(context, flat, self.continuations, seed=services.seed, stage=stage)
        ends = np.cumsum([len(row) for row in every])[:-1]
        groups = groups_of_values(firsts, places, np.split(played.values, ends) if places else [])
        return Judged(groups, played.consultations, played.sampled_tokens)
