"""What each method has learned for equal consultations, equal tokens or equal device time."""

from collections.abc import Mapping

from analysis.budgets import (
    COSTS,
    COUNTED,
    RULE,
    Budgets,
    amount_at,
    budgets,
    estimate_at,
    trained,
)
from analysis.collected import Collected
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Row, Table, number

NAME = "equal_budgets"
# Metric of a validation -> its column, the factor to the printed unit, and digits.
VALIDATED = {
    "accuracy": (Column("accuracy", "Acc. (%)"), 100.0, 2),
    "best_questions": (Column("best", "Best questions (%)"), 100.0, 1),
    "turns": (Column("turns", "Q/ep."), 1.0, 3),
}
FIRST = (Column("budget", "Budget", numeric=False), Column("method", "Method", numeric=False))
LAST = (
    Column("update", "Update"),
    Column("trajectories", "Consultations", "Spent"),
    Column("sampled_tokens", "Tokens (million)", "Spent"),
    Column("device_hours", "Device-hours", "Spent"),
)


def build(collected: Collected) -> Table:
    """Every RL method and control at up to three budgets of each kind."""
    development = collected.benchmarks[collected.study.development].title
    metrics = {m: column for m, (column, *_) in VALIDATED.items() if m in collected.updates}
    kinds = {cost: found for cost in COSTS if (found := budgets(collected, cost))}
    rows = [row for cost in kinds for row in _rows(collected, kinds, cost, list(metrics))]
    quality = (
        " Best questions: share of best ones among the first three answered questions of each "
        "consultation."
        if "best_questions" in metrics
        else ""
    )
    caption = (
        f"Validation on {development}, as recorded in training, of every run when it had spent the "
        f"budget, mean ± sample standard deviation over runs.{quality} Update and spent: means "
        f"over runs. {RULE} {COUNTED} A dash: not known of Shared SFT or of some run."
    )
    columns = (*FIRST, *metrics.values(), *LAST)
    return Table(NAME, "Accuracy at equal budgets.", caption, columns, tuple(rows))


def _rows(
    collected: Collected, kinds: Mapping[str, Budgets], cost: str, metrics: list[str]
) -> list[Row]:
    """Methods at the budgets of a kind."""
    rows, methods = [], trained(collected)
    for budget, amount in kinds[cost].amounts.items():
        for method in methods:
            weights = {
                run: kinds[cost].weights(method, run, budget) for run in collected.runs(method)
            }
            first = method == methods[0]
            label = f"{COSTS[cost].number(amount).text()} {COSTS[cost].unit}" if first else ""
            row = (
                label,
                collected.title(method),
                *_cells(collected, kinds, method, weights, metrics),
            )
            rows.append(Row(f"{cost}:{budget}:{method}", row, first, method == "pcqc"))
    return rows


def _cells(
    collected: Collected,
    kinds: Mapping[str, Budgets],
    method: str,
    weights: Mapping[str, Mapping[int, float]],
    metrics: list[str],
) -> list[Cell]:
    """A method between updates of each run: what validation found, and what was spent."""
    cells: list[Cell] = []
    for metric in metrics:
        _, factor, digits = VALIDATED[metric]
        found = estimate_at(collected, method, metric, weights, factor)
        cells.append(number(found, digits) if found else MISSING)
    updates = [sum(share * update for update, share in at.items()) for at in weights.values()]
    cells.append(number(over_runs(updates), 1))
    for cost in ("trajectories", "sampled_tokens", "device_hours"):
        if cost not in kinds:
            cells.append(MISSING)
            continue
        spent = kinds[cost].spent[0]
        amounts = [amount_at(spent, method, run, at) for run, at in weights.items()]
        cells.append(COSTS[cost].number(sum(amounts) / len(amounts)))
    return cells
