"""A line of the doctor: what was looked at, what was measured and is needed, how to mend it."""

from collections.abc import Callable
from dataclasses import dataclass

from pcqc.errors import UserError, one_line


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        name: what was looked at.
        measured: what was found, and what is needed.
        remedy: how to mend it; empty where nothing must be.
        skipped: whether it was not looked at; `measured` says why.
    """

    name: str
    measured: str
    remedy: str = ""
    skipped: bool = False

    @property
    def line(self) -> str:
        mark = "skip" if self.skipped else "RED" if self.remedy else "ok"
        mend = f"; to mend: {self.remedy}" if self.remedy else ""
        return one_line(f"{mark:<5} {self.name:<17} {self.measured}{mend}")


def tried(name: str, check: Callable[[], str]) -> Finding:
    """The finding of a check, which says what it measured.

    A `UserError` is red; its last clause is the remedy. So is any other error: whatever it is, it
    would end a job too.
    """
    try:
        return Finding(name, check())
    except UserError as problem:
        found, _, remedy = str(problem).rpartition("; ")
        return Finding(name, found, remedy)
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [""])[0]
        return Finding(name, f"{type(problem).__name__}: {reason}", "see docs/real-study.md#gpus")


def enough(found: float, needed: float, what: str, remedy: str) -> str:
    """`41.20 GiB free, 3.10 needed`; UserError where there is less than needed."""
    said = f"{found:,.2f} {what}, {needed:,.2f} needed"
    if found < needed:
        raise UserError(f"{said}; {remedy}")
    return said
