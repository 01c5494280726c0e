"""What validations decide: a run's checkpoint, and whether its training may end early."""

from collections.abc import Sequence

from pcqc_base.errors import UserError

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
        validated = checkpoint["validation"]["benchmark"]
        if validated != benchmark:
            raise UserError(
                f"checkpoint {checkpoint['update']} was validated on '{validated}', not on "
                f"'{benchmark}'; only the development benchmark may select"
            )
    rows = [
        {"update": checkpoint["update"]}
        | {name: checkpoint["validation"][name] for name in ("accuracy", "turns", "actor_tokens")}
        for checkpoint in checkpoints
    ]
    best = min(rows, key=lambda r: (-r["accuracy"], r["turns"], r["update"]))
    rejected = [{**r, "reason": _reason(r, best)} for r in rows if r is not best]
    return {
        "benchmark": benchmark,
        "criterion": CRITERION,
        "selected": best,
        "rejected": rejected,
    }


def _reason(row: dict, best: dict) -> str:
    if row["accuracy"] < best["accuracy"]:
        points = 100 * (best["accuracy"] - row["accuracy"])
        return f"accuracy {points:.2f} points below update {best['update']}"
    if row["turns"] > best["turns"]:
        return f"equal accuracy, {row['turns'] - best['turns']:.3f} more inquiry turns"
    return f"equal accuracy and turns, later than update {best['update']}"


def levelled_off(accuracies: Sequence[float], after: int, points: float) -> bool:
    """Whether the last `after` checkpoints are hardly better than those before them.

    Args:
        accuracies: update -> accuracy of its validation, a fraction; all so far.
        after: how many checkpoints at the end are compared with all others; 0: no run ends early.
        points: what the best of them must gain over the best before, in percentage points.
    """
    if not after or len(accuracies) <= after:
        return False
    gain = max(accuracies[-after:]) - max(accuracies[:-after])
    # Accuracies are quotients of small integers: a gain of exactly `points` is one.
    return round(100 * gain, 9) < points
