"""What a credit reads, what that costs, and what it does where there is nothing to compare."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turn_credit import Credit, Group, ProcessGroup, Ragged

# Three consultations and, at the opening, three candidates.
FULL = ProcessGroup(
    rewards=[1.0, 0.0, 1.0],
    beliefs=[[0.2, 0.5, 0.4], [0.2, 0.3], [0.2, 0.6, 0.7]],
    values=[[0.5, 0.75, 0.5], [0.5, 0.25], [0.5, 0.5, 1.0]],
    states=[["opening", "x", "xy"], ["opening", "y"], ["opening", "x", "xz"]],
    critiques=[[1, -1, 0], [1, 0], [1, 1, 0]],
    shifts=[[0.2, 0.5, 0.0], [0.3, 0.0], [0.1, 0.4, 0.0]],
    utilities=[[0.5, 0.3, 0.6]],
    baselines=[0.2],
    continued=[[1.0, 0.0, 1.0]],
    expected=[[0.5, 0.3, 0.6]],
)
_OF_CONSULTATIONS = ("rewards", "beliefs", "values", "states", "critiques", "shifts")
_OF_CANDIDATES = ("utilities", "continued", "expected")
NOTHING = 1e-9
_FIELDS = (*_OF_CONSULTATIONS, *_OF_CANDIDATES, "baselines")


@dataclass(frozen=True)
class Behaviour:
    """What a credit reads, and does.

    Attributes:
        reads: fields of `Group` without which it fails or is another.
        missing: a field that it needs and no group of the material has; None where it has all.
        alone: only the executed candidate has credit.
        compares: the executed candidate's credit depends on the other candidates.
        ties, single: `0`, `alike`, `differ`, `not finite` or the error, where all candidates or
            consultations are alike, and where there is one (`not 0`).
    """

    reads: set[str]
    missing: str | None
    alone: bool = False
    compares: bool = True
    ties: str = ""
    single: str = ""


def behaviour(credit: Credit) -> Behaviour:
    """Try a credit out on small groups."""
    try:
        rows = credit(FULL)
    except ValueError as problem:
        return Behaviour(set(), str(problem))
    except TypeError as problem:  # a scalar, for example
        wanted = "a credit returns an array for each consultation or state"
        return Behaviour(set(), f"{problem}; {wanted}")
    except AttributeError as problem:  # a field of a group of another kind
        return Behaviour(set(), f"this credit needs `{problem.name}`, which no group has")
    told = _tell(credit, 3), _tell(credit, 1)
    steady = _equal(credit(FULL), rows)  # a credit by chance differs from itself
    reads = {name for name in _FIELDS if not _goes_without(credit, name, rows if steady else None)}
    if credit.of != "questions":
        return Behaviour(reads, None, False, True, *told)
    first = {name: getattr(FULL, name)[0][0] for name in _OF_CANDIDATES}
    changed: dict[str, Any] = {name: [[value, 0.8, 0.1]] for name, value in first.items()}
    compares = bool(credit(replace(FULL, **changed))[0][0] != rows[0][0])
    return Behaviour(reads, None, not np.any(rows[0][1:]), compares, *told)


def _goes_without(credit: Callable[[Group], Ragged], name: str, rows: Ragged | None) -> bool:
    """Whether a credit does not fail where a field is left out, or rewards are others.

    Args:
        rows: what it must be then; None: anything.
    """
    without: dict[str, Any] = {"rewards": [0.0, 1.0, 0.5]} if name == "rewards" else {name: None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            again = credit(replace(FULL, **without))
    except Exception:  # whatever somebody's credit raises: it needs the field
        return False
    return rows is None or _equal(again, rows)


def _equal(rows: Ragged, others: Ragged) -> bool:
    """Whether two credits are equal, number by number."""
    return all(np.array_equal(*pair, equal_nan=True) for pair in zip(rows, others, strict=True))


def _repeated(times: int) -> Group:
    """So many consultations and candidates, all as the first one."""
    first: dict[str, Any] = {n: [getattr(FULL, n)[0]] * times for n in _OF_CONSULTATIONS}
    first |= {n: [[getattr(FULL, n)[0][0]] * times] for n in _OF_CANDIDATES}
    return replace(FULL, **first)


def _tell(credit: Callable[[Group], Ragged], times: int) -> str:
    """What the credit makes of so many consultations or candidates that are alike."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rows = [np.asarray(row, float) for row in credit(_repeated(times))]
    except Exception as problem:  # the table tells whatever somebody's credit raises
        return type(problem).__name__
    every = np.concatenate(rows)
    if not np.isfinite(every).all():
        return "not finite"
    if np.abs(every).max() < NOTHING:
        return "0"
    if times == 1:
        return "not 0"
    compared = np.array(rows) if len(rows) > 1 else rows[0][:, None]
    return "alike" if np.ptp(compared, axis=0).max() < NOTHING else "differ"


def costs(
    credit: Credit, known: Behaviour, size: int, turns: float, left: float
) -> tuple[float, float]:
    """Responses sampled beside the consultations' own, and readings, for each credited question.

    Args:
        credit: whose.
        known: what it reads.
        size: candidates of a state, or consultations of a case.
        turns: mean number of a consultation.
        left: mean number of turns that follow a candidate.
    """
    reads = known.reads
    if credit.of == "turns":
        sampled = left * size * turns if "values" in reads else 0.0
        read = size * turns if reads & {"beliefs", "critiques"} else 0.0
        return ((size - 1) * turns + sampled) / (size * turns), read / (size * turns)
    others = size if known.compares or not known.alone else 1
    sampled = others - 1 + (others * left if "continued" in reads else 0.0)
    read = (others if "utilities" in reads else 0.0) + ("baselines" in reads)
    credited = 1 if known.alone else others
    return sampled / credited, read / credited
