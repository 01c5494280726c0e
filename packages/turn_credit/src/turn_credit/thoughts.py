"""What a written thought preserves of a dialogue, as numbers that thoughts can be compared by.

A reader who sees the thought and the task, but not the dialogue, believes something about the
diagnosis. Candidates of one state have heard the same dialogue, so what their readers' beliefs
differ in is what they wrote down: `same_state_credit` of these scores is credit of the thoughts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def quadratic_scores(beliefs: Sequence[ArrayLike], correct: int) -> np.ndarray:
    """2 b(y*) - sum_y b(y)^2 of each reader's belief (Brier 1950; Gneiting & Raftery 2007).

    The score is proper: whoever knows p expects most by conveying p. By b(y*) itself a thought
    would do best to name the likeliest option alone and to drop all others.

    Args:
        beliefs: float [options] of each reader; each sums to 1.
        correct: index of y*.

    Returns:
        float64 [readers], from -1 (sure of another option) to 1 (sure of the correct one).
    """
    b = np.asarray(beliefs, np.float64)
    return 2 * b[:, correct] - (b**2).sum(axis=1)
