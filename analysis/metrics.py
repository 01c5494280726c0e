"""Metrics of a consultation: what tables can show of every method.

A metric is derived from a run's predictions, a row for each case. So a new one changes no result
and no archive (docs/add-a-metric.md).
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

# Numbers that predictions have of each case.
OUTCOMES = ("correct", "turns", "actor_tokens")


@dataclass(frozen=True)
class Metric:
    """A number of each consultation.

    Attributes:
        title: heads its column.
        about: says what it is, after the title and a colon.
        digits: after the point, in tables.
        of: from predictions (columns of `pcqc.evaluation.predictions.SCHEMA`) to the value of each
            case, in the printed unit.
        overview: whether the table of all methods has a column for it.
    """

    title: str
    about: str
    digits: int
    of: Callable[[pd.DataFrame], pd.Series]
    overview: bool = False


METRICS = {
    "accuracy": Metric(
        "Right (%)",
        "percent of consultations that end in the right diagnosis",
        2,
        lambda rows: 100.0 * rows["correct"].astype(float),
        overview=True,
    ),
    "turns": Metric(
        "Questions",
        "turns before that diagnosis",
        3,
        lambda rows: rows["turns"].astype(float),
        overview=True,
    ),
    "actor_tokens": Metric(
        "Tokens",
        "tokens that the actor wrote",
        1,
        lambda rows: rows["actor_tokens"].astype(float),
    ),
}
