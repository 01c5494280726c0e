"""Rows of a run's records that every method has: metrics and dialogues."""

from pcqc.evaluation.benchmark import dialogue_row
from pcqc.methods.rollouts import RolloutBatch
from pcqc.system.machine import now
from pcqc.training.policy import UpdateReport


def event_row(
    update: int,
    metrics: dict[str, float],
    report: UpdateReport,
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


def consultation_rows(update: int, batch: RolloutBatch, count: int) -> list[dict]:
    """The first consultations of the first cases of an update, to read."""
    rows = []
    for i, (case, row) in enumerate(zip(batch.cases[:count], batch.consultations, strict=False)):
        extra = {
            "update": update,
            "rollout": 0,
            "reward": float(batch.rewards[i][0]),
            "advantage": float(batch.advantages[i][0]),
        }
        rows.append({**extra, **dialogue_row(case, row[0])})
    return rows
