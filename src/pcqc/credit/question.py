"""Question credit: what asking one question rather than another was worth."""

from collections.abc import Sequence

import numpy as np

from pcqc.credit.standardise import standardise


def diagnostic_gain(utilities: np.ndarray, baseline: float) -> np.ndarray:
    """Delta_i = u_i - b(O_t) (Eq. 7): the change in the correct option's probability."""
    return np.asarray(utilities, np.float64) - baseline


def same_state_credit(gains: np.ndarray) -> np.ndarray:
    """Relative question credit A^Q of the K candidates of one state (Eq. 5 and 8).

    Args:
        gains: float [K], diagnostic gains or utilities; a shared baseline changes nothing.

    Returns:
        float64 [K]; zeros where the candidates are nearly indistinguishable.
    """
    return standardise(gains)


def executed_local_credit(gains: Sequence[float]) -> np.ndarray:
    """Credit of executed questions, standardised across all events of an update (Appendix B.5).

    Args:
        gains: diagnostic gain d_e of each event, over cases and states.

    Returns:
        float64 [events]; zeros for fewer than two events or nearly equal gains.
    """
    return standardise(gains)
