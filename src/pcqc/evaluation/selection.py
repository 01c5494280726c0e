"""Choice of a run's checkpoint, by the development benchmark alone: pure functions."""

from collections.abc import Sequence

from pcqc.errors import UserError

CRITERION = "highest development accuracy; of equals the fewest inquiry turns; then the earliest"


def select(benchmark: str, checkpoints: Sequence[dict]) -> dict:
    """Choose a checkpoint and say why the others were rejected.

    Args:
        benchmark: the development benchmark.
        checkpoints: each with `update` and `validation` (`benchmark`, `accuracy`, `turns`, ...).

    Returns:
        `benchmark`, `criterion`, the `selected` checkpoint and the `rejected` ones with `reason`.

    Raises:
        UserError: a checkpoint was validated on another benchmark; no checkpoint at all.
    """
    if not checkpoints:
        raise UserError("no checkpoint to select from; lower rl.checkpoint_every and rerun")
    for checkpoint in checkpoints:
        found = checkpoint["validation"]["benchmark"]
        if found != benchmark:
            raise UserError(
                f"checkpoint {checkpoint['update']} was validated on '{found}', not on "
                f"'{benchmark}'; only the development benchmark may select"
            )
    rows = [_row(checkpoint) for checkpoint in checkpoints]
    best = min(rows, key=lambda r: (-r["accuracy"], r["turns"], r["update"]))
    rejected = [{**r, "reason": _reason(r, best)} for r in rows if r is not best]
    return {
        "benchmark": benchmark,
        "criterion": CRITERION,
        "selected": best,
        "rejected": rejected,
    }


def _row(checkpoint: dict) -> dict:
    validation = checkpoint["validation"]
    return {
        "update": checkpoint["update"],
        "accuracy": validation["accuracy"],
        "turns": validation["turns"],
        "actor_tokens": validation["actor_tokens"],
    }


def _reason(row: dict, best: dict) -> str:
    if row["accuracy"] < best["accuracy"]:
        points = 100 * (best["accuracy"] - row["accuracy"])
        return f"accuracy {points:.2f} points below update {best['update']}"
    if row["turns"] > best["turns"]:
        return f"equal accuracy, {row['turns'] - best['turns']:.3f} more inquiry turns"
    return f"equal accuracy and turns, later than update {best['update']}"
