"""Terminal credit: group-relative advantages of complete consultations (GRPO)."""

import numpy as np

from pcqc.credit.standardise import standardise


def terminal_advantages(rewards: np.ndarray) -> np.ndarray:
    """Advantage of each of the G_T consultations of one case (Shao et al. 2024).

    Args:
        rewards: float [G_T], 1 for a correct valid final answer, else 0.

    Returns:
        float64 [G_T]: (r - mean) / (sample standard deviation + 1e-6); zeros where all are equal
        and for a single consultation.
    """
    return standardise(rewards)
