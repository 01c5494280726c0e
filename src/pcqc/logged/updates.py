"""What is logged of an update: one row of numbers, and beside it a row of times.

Equal runs have equal numbers (`events.jsonl`), but not equal times (`times.jsonl`).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcqc_base.system.files import read_jsonl
from pcqc_base.system.machine import now

if TYPE_CHECKING:
    from pcqc.training.policy import UpdateReport

EVENTS, TIMES = "events", "times"  # names of the two records
# What depends on the load of the machine and its servers; a prefix ends in a slash.
OF_THE_MACHINE = ("time", "device_hours", "seconds/", "servers/")
_KEY = ("kind", "update")


def apart(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two rows that are written of one: of what equal runs share, and of times."""
    timed = {name for name in row if _is_timed(name)}
    times = {name: value for name, value in row.items() if name in timed or name in _KEY}
    return {name: value for name, value in row.items() if name not in timed}, times


def _is_timed(name: str) -> bool:
    return any(name == of or (of.endswith("/") and name.startswith(of)) for of in OF_THE_MACHINE)


def joined(
    events: Iterable[dict[str, Any]], times: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Rows as they were before `apart`; those of before there were `times` have theirs."""
    of_row = {tuple(map(row.get, _KEY)): row for row in times}
    return ({**row, **of_row.get(tuple(map(row.get, _KEY)), {})} for row in events)


def read_updates(events: Path, times: Path) -> Iterator[dict[str, Any]]:
    """Rows of a training's updates and validations, with their times where there are any."""
    rows = [row for _, row in read_jsonl(times)] if times.exists() else []
    return joined((row for _, row in read_jsonl(events)), rows)


def event_row(
    update: int,
    metrics: dict[str, float],
    report: "UpdateReport",
    totals: dict[str, float],
    seconds: dict[str, float],
) -> dict:
    """The metrics of an update."""
    return {
        "kind": "update",
        "update": update,
        "time": now(),
        **metrics,
        **{f"loss/{name}": value for name, value in report.losses.items()},
        "kl": report.losses.get("kl", 0.0),
        **report.statistics,
        **{f"seconds/{name}": value for name, value in seconds.items()},
        **{name: totals[name] for name in ("trajectories", "sampled_tokens", "scored_tokens")},
        "device_hours": totals["device_seconds"] / 3600,
    }
