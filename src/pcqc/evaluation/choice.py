"""Which of a state's fixed candidates a selection rule takes, and its downstream success."""

import numpy as np

# Sets of states of a continuation study: of the policy's selected checkpoint; the same states under
# an early checkpoint; others, at which some answers are made to lack grounds.
MAIN, EARLY, UNGROUNDED = "main", "early", "ungrounded"


def highest_utility(utility: np.ndarray, eligible: np.ndarray | bool = True) -> np.ndarray:
    """Index of the eligible candidate with the highest utility; in a tie the first drawn.

    Args:
        utility: [states, candidates].
        eligible: [states, candidates] booleans, or one for all.

    Returns:
        [states] indices; 0 where no candidate is eligible.
    """
    return np.where(eligible, utility, -np.inf).argmax(axis=1)


def selected_success(
    utility: np.ndarray, success: np.ndarray, eligible: np.ndarray | bool = True
) -> dict[str, np.ndarray]:
    """Downstream success of each selection rule at each state (`app:credit_analysis`).

    Args:
        utility: [states, candidates], the executed question first.
        success: [states, candidates], fraction of correct continuations.
        eligible: [states, candidates] booleans, or one for all.

    Returns:
        `uniform` (the expectation of a uniform choice: the mean), `executed` and `highest_utility`,
        [states] each; NaN where the rule has no eligible candidate to take.
    """
    among = np.broadcast_to(eligible, utility.shape)
    best = highest_utility(utility, among)[:, None]
    count = among.sum(axis=1)
    total = np.where(among, success, 0).sum(axis=1)
    taken = np.take_along_axis(success, best, axis=1)[:, 0]
    return {
        "uniform": np.where(count > 0, total / np.maximum(count, 1), np.nan),
        "executed": np.where(among[:, 0], success[:, 0], np.nan),
        "highest_utility": np.where(count > 0, taken, np.nan),
    }
