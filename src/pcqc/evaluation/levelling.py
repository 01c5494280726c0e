"""When a run's validation has levelled off, which ends its training."""

from collections.abc import Sequence


def levelled_off(accuracies: Sequence[float], after: int, points: float) -> bool:
    """Whether the last checkpoints are hardly better than those before them.

    Args:
        accuracies: of all validations so far, fractions, by update.
        after: how many checkpoints at the end are compared with all others; 0: none ever.
        points: what the best of them must gain over the best before, in percentage points.
    """
    if not after or len(accuracies) <= after:
        return False
    gain = max(accuracies[-after:]) - max(accuracies[:-after])
    # Accuracies are quotients of small integers: a gain of exactly `points` is one.
    return round(100 * gain, 9) < points
