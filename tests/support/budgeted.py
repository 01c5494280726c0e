"""Two methods with one run each, whose updates cost what the tests say."""

from dataclasses import replace

import pandas as pd

# Consultations an update; GRPO spends twice as much. Both take 5e11 FLOPs and 5,000 tokens.
SPENT = {"pcqc": 10, "grpo": 20}


def two_methods(
    collected, validated, columns=("trajectories", "sampled_tokens", "compute"), **more
):
    """The collected study with 20 updates of one run of each method.

    Args:
        collected: whose study and predictions stay.
        validated: method, update -> whether the update is validated.
        columns: costs that are recorded.
        more: what else changes.
    """
    runs = {name: ("A",) if name in (*SPENT, "shared_sft") else () for name in collected.methods()}
    rows = []
    for method, each in SPENT.items():
        for update in range(1, 21):
            common = {"method": method, "run": "A", "update": update, "turns": float(update)}
            cost = {
                "trajectories": update * each,
                "sampled_tokens": update * 5000.0,
                "compute": update * 0.5e12,
            }
            cost = {name: cost[name] for name in columns}
            rows.append({**common, **cost, "kind": "update", "accuracy": 0.0})
            if validated(method, update):
                quality = {"accuracy": update / 100, "best_questions": update / 40}
                rows.append({**common, "kind": "validation", **quality})
    return replace(collected.with_runs(runs), updates=pd.DataFrame(rows), **more)


def fifths(method, update):
    """Every fifth update is validated."""
    return update % 5 == 0
