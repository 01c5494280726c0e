"""What is logged of an update's consultations, whatever the method."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pcqc.methods.rollouts import RolloutBatch


def rollout_metrics(batch: "RolloutBatch") -> dict[str, float]:
    """Metric name -> value; `docs/read-a-run.md` explains each."""
    every = [c for row in batch.consultations for c in row]
    pairs = zip(batch.cases, batch.consultations, strict=True)
    correct = [c.is_correct(case) for case, row in pairs for c in row]
    return {
        "reward/mean": float(np.concatenate(list(batch.rewards)).mean()),
        "reward/equal_group_share": float(np.mean([np.all(r == r[0]) for r in batch.rewards])),
        "accuracy": float(np.mean(correct)),
        "turns": float(np.mean([c.inquiry_turns for c in every])),
        "tokens/actor": sum(c.actor_tokens for c in every) / len(every),
        "ending/answer_share": float(np.mean([c.ending == "answer" for c in every])),
        "ending/turn_limit_share": float(np.mean([c.ending == "turn_limit" for c in every])),
        "tokens/actor_all": batch.sampled_tokens,
        **batch.failures,
    }
