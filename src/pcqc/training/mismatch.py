"""The engine that samples and the learner are two policies: how far apart, and what to do about it.

They have the same weights but round differently. A ratio is pi_learner / pi_engine of what the
engine sampled, before the update's first step. Weighted by it, the engine's samples stand for the
learner's (token by token, truncated: Yao et al. 2025; by sequence, masked: Liu et al. 2025).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LARGEST = 3.0  # weight of a token, and ratio of a sequence that is still trained on; as in TRL
LARGEST_LOG = 20.0  # of a log ratio, as in the KL penalty


@dataclass(frozen=True)
class Ratios:
    """Ratios of sampled tokens and of their sequences, whose ratios are products over tokens.

    Attributes:
        logs: float64 [tokens], log pi_learner - log pi_engine.
        lengths: tokens of each sequence, one sequence after another.
    """

    logs: np.ndarray
    lengths: Sequence[int]

    @property
    def tokens(self) -> np.ndarray:
        """Ratio of each token."""
        return np.exp(_bounded(self.logs))

    @property
    def sequences(self) -> np.ndarray:
        """Ratio of each sequence."""
        parts = np.split(self.logs, np.cumsum(self.lengths, dtype=int)[:-1])
        return np.exp(_bounded(np.array([part.sum() for part in parts[: len(self.lengths)]])))

    def weights(self, mismatch: str) -> np.ndarray | None:
        """What multiplies each token's loss; None where `rl.mismatch` is `log`.

        With `truncate` it is the token's ratio, at most `LARGEST`; with `mask` its sequence's
        ratio, or 0 where that is above `LARGEST`.
        """
        if mismatch == "log":
            return None
        if mismatch == "truncate":
            return np.minimum(self.tokens, LARGEST)
        ratios = self.sequences
        return np.repeat(np.where(ratios > LARGEST, 0.0, ratios), self.lengths)

    def sums(self) -> dict[str, float]:
        """Sums over tokens and over sequences, and maxima, of which `statistics` makes means."""
        logs = _bounded(self.logs)
        sums = {
            "gap/mean": float(np.abs(self.logs).sum()),
            "gap/max": float(np.abs(self.logs).max(initial=0)),
            "gap/k1": float(0.0 - self.logs.sum()),
            "gap/k3": float((np.expm1(logs) - logs).sum()),
        }
        for name, ratios in (("token", self.tokens), ("sequence", self.sequences)):
            sums |= {
                f"count/{name}": float(len(ratios)),
                f"square/{name}": float((ratios**2).sum()),
                f"gap/{name}_ratio": float(ratios.sum()),
                f"gap/{name}_ratio_max": float(ratios.max(initial=0)),
                f"gap/{name}s_above": float((ratios > LARGEST).sum()),
            }
        return sums


def statistics(sums: Mapping[str, float]) -> dict[str, float]:
    """Of an update, from the sums over its micro-batches; a missing one must count as zero.

    `gap/k1` and `gap/k3` estimate KL(pi_engine || pi_learner) of a token. The effective sample
    size, (sum r)^2 / sum r^2, is a share of the tokens, or of the sequences.
    """
    made = {"gap/max": sums["gap/max"]}
    for name in ("token", "sequence"):
        count = max(sums[f"count/{name}"], 1.0)
        means = [f"gap/{name}_ratio", f"gap/{name}s_above"]
        means += ["gap/mean", "gap/k1", "gap/k3"] if name == "token" else []
        made |= {key: sums[key] / count for key in means}
        square = sums[f"square/{name}"] / count
        made[f"gap/{name}_ess"] = made[f"gap/{name}_ratio"] ** 2 / square if square else 0.0
        made[f"gap/{name}_ratio_max"] = sums[f"gap/{name}_ratio_max"]
    return made


def _bounded(logs: np.ndarray) -> np.ndarray:
    return np.clip(logs, -LARGEST_LOG, LARGEST_LOG)
