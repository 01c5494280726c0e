"""What credits read: the consultations of a group, and what is known of their turns and states."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Row = Sequence[float] | np.ndarray
Ragged = list[np.ndarray]  # float64 arrays of different lengths

_OF_TURNS = ("turns", "beliefs", "values", "states")
_OF_CANDIDATES = ("utilities", "continued", "expected")


@dataclass(frozen=True)
class Group:
    """Consultations that a credit compares; all lengths must agree.

    The G consultations are of one case. A credit whose scope is the update takes all consultations
    of an update as one group (`join`). Consultation i has T_i turns, the last of which ends it. At
    S of the states before a turn, K_s candidate questions were sampled, the executed one first.

    Attributes:
        rewards: float [G].
        turns: int [G], T_i; may be left out where beliefs, values or states are given.
        beliefs: float [T_i] of each consultation, probability of the correct answer before a turn.
        values: float [T_i] of each, mean reward of consultations played on from before a turn.
        states: T_i of each, what identifies the state before a turn.
        utilities: float [K_s] of each state, probability of the correct answer after a candidate's
            answer.
        baselines: float [S], the same probability before the question.
        continued: float [K_s] of each, mean reward of consultations played on from a candidate.
        expected: float [K_s] of each, `expected_probability` of a candidate.

    Raises:
        ValueError: lengths disagree.
    """

    rewards: Row = ()
    turns: Sequence[int] | None = None
    beliefs: Sequence[Row] | None = None
    values: Sequence[Row] | None = None
    states: Sequence[Sequence[Hashable]] | None = None
    utilities: Sequence[Row] | None = None
    baselines: Row | None = None
    continued: Sequence[Row] | None = None
    expected: Sequence[Row] | None = None

    def __post_init__(self):
        _same_lengths(self, _OF_TURNS)
        _same_lengths(self, _OF_CANDIDATES)
        count = len(self.rewards)
        for name in _OF_TURNS:
            if (rows := getattr(self, name)) is not None and len(rows) != count:
                raise ValueError(f"{name} of {len(rows)} consultations beside {count} rewards")
        if self.baselines is not None and len(self.baselines) != len(self.utilities or ()):
            raise ValueError(
                f"{len(self.baselines)} baselines beside utilities of {len(self.utilities or ())} "
                "states"
            )

    @property
    def lengths(self) -> list[int]:
        """T_i of each consultation."""
        return next(iter(_lengths(self, _OF_TURNS).values()), [])

    def given(self, name: str) -> Any:
        """A field that a credit needs.

        Raises:
            ValueError: the group has none.
        """
        if (value := getattr(self, name)) is None:
            raise ValueError(f"this credit needs `{name}`, which the group does not have")
        return value

    def read(self, name: str) -> Ragged:
        """`given`, as float arrays."""
        return [np.asarray(row, np.float64) for row in self.given(name)]


def join(groups: Sequence[Group]) -> Group:
    """All consultations and states of several groups as one group; what all of them have."""
    joined = {}
    for name in (field.name for field in fields(Group)):
        rows = [getattr(group, name) for group in groups]
        if all(row is not None for row in rows):
            joined[name] = [entry for row in rows for entry in row]
    return Group(**joined)


def _lengths(group: Group, names: Sequence[str]) -> dict[str, list[int]]:
    """Name of a field that the group has -> length of each of its rows; `turns` are lengths."""
    given = {name: rows for name in names if (rows := getattr(group, name)) is not None}
    return {
        name: list(rows) if name == "turns" else [len(row) for row in rows]
        for name, rows in given.items()
    }


def _same_lengths(group: Group, names: Sequence[str]) -> None:
    lengths = _lengths(group, names)
    first, *others = lengths or [""]
    for other in others:
        if lengths[other] != lengths[first]:
            raise ValueError(
                f"lengths disagree: {first} {lengths[first]}, {other} {lengths[other]}"
            )
