"""What credits read: the consultations of a group, and what is known of their turns and states."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from turn_credit.tensors import first_tensor, plain

Row = Sequence[float | None] | np.ndarray
Ragged = list[np.ndarray]  # float64 arrays of different lengths

ROUNDING = 1e-6  # a probability in float32 is above 1 or below 0 by no more


@dataclass(frozen=True)
class Group:
    """Consultations that a credit compares; all lengths must agree.

    The G consultations are of one case. A credit whose scope is the update takes all consultations
    of an update as one group (`join`). Consultation i has T_i turns, the last of which ends it. At
    S of the states before a turn, K_s candidate questions were sampled, the executed one first.

    Every field may hold torch tensors, on any device; then they are read as numpy's arrays, and
    credits are tensors on the device of the first of them.

    Attributes:
        rewards: float [G], of the outcome; left out where `turn_rewards` are given it is their sum.
        turns: int [G], T_i; may be left out where a field below has them.
        beliefs: float [T_i] of each consultation, probability of the correct answer before a turn;
            NaN or None where it is not known.
        values: float [T_i] of each, mean reward of consultations played on from before a turn; NaN
            or None where it is not known.
        states: T_i of each, what identifies the state before a turn.
        turn_rewards: float [T_i] of each, all that a turn earned; the last turn's has that of the
            outcome. None counts as 0.
        utilities: float [K_s] of each state, probability of the correct answer after a candidate's
            answer.
        baselines: float [S], the same probability before the question.
        continued: float [K_s] of each, mean reward of consultations played on from a candidate.
        expected: float [K_s] of each, `expected_probability` of a candidate.
        name: the case's, for messages.

    Raises:
        ValueError: lengths disagree, a consultation has no turn or a state no candidate, a number
            is NaN or infinite, or a belief is no probability.
    """

    rewards: Row = ()
    turns: Sequence[int] | None = None
    beliefs: Sequence[Row] | None = None
    values: Sequence[Row] | None = None
    states: Sequence[Sequence[Hashable]] | None = None
    turn_rewards: Sequence[Row] | None = None
    utilities: Sequence[Row] | None = None
    baselines: Row | None = None
    continued: Sequence[Row] | None = None
    expected: Sequence[Row] | None = None
    name: str = ""

    OF_TURNS: ClassVar[tuple[str, ...]] = ("turns", "beliefs", "values", "states", "turn_rewards")
    OF_CANDIDATES: ClassVar[tuple[str, ...]] = ("utilities", "continued", "expected")
    # Fields that need not be known everywhere: a credit that needs an entry is NaN.
    UNKNOWN: ClassVar[tuple[str, ...]] = ("beliefs", "values")

    def __post_init__(self):
        tensor = None
        for name in self.fields_given():
            if name not in ("name", "states"):
                value = vars(self)[name]
                tensor = first_tensor(value) if tensor is None else tensor
                self._set(name, plain(value))
        if self.turn_rewards is not None:
            self._set("turn_rewards", [_zero_where_none(row) for row in self.turn_rewards])
            if not len(self.rewards):
                self._set("rewards", [float(np.sum(row)) for row in self.turn_rewards])
        # Beside the fields: to look at these is no look at a field.
        self._set("_tensor", tensor)
        self._set("_lengths", self._same_lengths(self.OF_TURNS, "consultation", "turn"))
        self._set("_candidates", self._same_lengths(self.OF_CANDIDATES, "state", "candidate"))
        self._rows_agree()
        for name in self.fields_given():
            if name not in ("name", "states", "turns"):
                self._check_numbers(name)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def lengths(self) -> list[int]:
        """T_i of each consultation; empty where no field tells."""
        return vars(self)["_lengths"]

    @property
    def candidates(self) -> list[int]:
        """K_s of each state."""
        return vars(self)["_candidates"]

    @property
    def tensor(self) -> Any:
        """The first tensor that the group was given, None where all was numbers."""
        return vars(self)["_tensor"]

    def fields_given(self) -> list[str]:
        """Names of the fields that this group has."""
        return [name for name in _names(self) if vars(self)[name] is not None]

    def has(self, name: str) -> bool:
        """Whether a field is given."""
        return vars(self)[name] is not None

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

    def _same_lengths(self, names: Sequence[str], unit: str, part: str) -> list[int]:
        """The length of each row, in which all fields of those names agree."""
        lengths = {
            name: self._counted(name, rows)
            for name in names
            if (rows := vars(self).get(name)) is not None
        }
        first, *others = lengths or [""]
        own = lengths.get(first, [])
        for other in others:
            if lengths[other] != own:
                raise ValueError(
                    f"{self.label}lengths disagree: {first} {own}, {other} {lengths[other]}"
                )
        for row, length in enumerate(own):
            if length < 1:
                raise ValueError(f"{self.label}{unit} {row} has no {part} ({first}); leave it out")
        return own

    def _counted(self, name: str, rows: Any) -> list[int]:
        """Length of each row of a field; `turns` are lengths."""
        try:
            own = list(rows) if name == "turns" else [len(row) for row in rows]
        except TypeError:
            raise ValueError(
                f"{self.label}{name} must be a row of numbers for each consultation or state"
            ) from None
        if any(int(length) != length for length in own):
            raise ValueError(f"{self.label}turns must be whole numbers, not {own}")
        return [int(length) for length in own]

    def _rows_agree(self) -> None:
        count = len(self.rewards)
        for name in self.fields_given():
            if name in self.OF_TURNS and len(rows := vars(self)[name]) != count:
                raise ValueError(
                    f"{self.label}{name} of {len(rows)} consultations beside {count} rewards"
                )
        if self.baselines is not None and len(self.baselines) != len(self.candidates):
            raise ValueError(
                f"{self.label}{len(self.baselines)} baselines beside utilities of "
                f"{len(self.candidates)} states"
            )

    def _check_numbers(self, name: str) -> None:
        """Every entry of a field is a finite number, a probability where it must be."""
        value, ragged = getattr(self, name), name not in ("rewards", "baselines")
        if not len(value):
            return
        rows = [np.asarray(row, np.float64) for row in (value if ragged else [value])]
        if any(row.ndim != 1 for row in rows):
            what = "a row of numbers for each" if ragged else "one number for each"
            raise ValueError(f"{self.label}{name} has other dimensions: give {what}")
        flat = np.concatenate(rows)
        wrong = np.isinf(flat) if name in self.UNKNOWN else ~np.isfinite(flat)
        remedy = "leave it out" if name not in self.UNKNOWN else "give None where it is not known"
        if name == "beliefs":
            wrong |= (flat < -ROUNDING) | (flat > 1 + ROUNDING)
            remedy = "a belief is a probability; `beliefs_of` makes it of log-probabilities"
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"{self.label}{self._where(name, place)} is {flat[place]}: {remedy}")

    def _where(self, name: str, place: int) -> str:
        """Words for an entry of a field, of all its entries in one row."""
        if name in ("rewards", "baselines"):
            return f"{name} of {'consultation' if name == 'rewards' else 'state'} {place}"
        ends = np.cumsum([len(row) for row in getattr(self, name)])
        row = int(np.searchsorted(ends, place, side="right"))
        inner = place - (int(ends[row - 1]) if row else 0)
        if name in self.OF_CANDIDATES:
            return f"{name} of state {row}, candidate {inner}"
        return f"{name} of consultation {row}, turn {inner}"

    @property
    def label(self) -> str:
        """How a message about this group begins."""
        return f"group '{self.name}': " if self.name else ""


def join(groups: Sequence[Group]) -> Group:
    """All consultations and states of several groups as one group; what all of them have."""
    kinds = {type(group) for group in groups}
    kind = kinds.pop() if len(kinds) == 1 else Group
    joined: dict[str, Any] = {}
    for name in _names(kind) if groups else ():
        if name != "name" and all(group.has(name) for group in groups):
            joined[name] = [entry for group in groups for entry in getattr(group, name)]
    if groups and all(len(group.lengths) == len(group.rewards) for group in groups):
        joined["turns"] = [length for group in groups for length in group.lengths]
    whole = kind(**joined)
    tensors = [group.tensor for group in groups if group.tensor is not None]
    whole._set("_tensor", tensors[0] if tensors else None)
    return whole


def _names(group: Any) -> list[str]:
    return [field.name for field in fields(group)]


def _zero_where_none(row: Any) -> Any:
    if isinstance(row, np.ndarray) or None not in row:
        return row
    return [0.0 if reward is None else reward for reward in row]
