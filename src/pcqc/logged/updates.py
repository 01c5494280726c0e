"""What is logged of an update: one row of numbers."""

from typing import TYPE_CHECKING

from pcqc.system.machine import now

if TYPE_CHECKING:
    from pcqc.training.policy import UpdateReport


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
