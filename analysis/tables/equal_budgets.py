"""What each method has learned for equal consultations, equal tokens or equal device time."""

from analysis.budgets import COSTS, COUNTED, RULE, budgets, estimate_at, trained
from analysis.collected import Collected
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Row, Table, number

# Metric of a validation -> its column and digits.
METRICS = {
    "accuracy": (Column("accuracy", "Acc. (%)"), 2),
    "best_questions": (Column("best", "Best questions (%)"), 1),
    "turns": (Column("turns", "Q/ep."), 3),
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
    kinds = {cost: spent for cost in COSTS if (spent := budgets(collected, cost))}
    metrics = {m: columns for m, columns in METRICS.items() if m in collected.updates}
    methods, rows = trained(collected), []
    for cost, spent in kinds.items():
        for budget, amount in spent.amounts.items():
            for method in methods:
                first = method == methods[0]
                label = f"{COSTS[cost].number(amount).text()} {COSTS[cost].unit}" if first else ""
                runs = collected.runs(method)
                weights = {run: spent.weights(method, run, budget) for run in runs}
                cells: list[Cell] = []
                for metric, (_, digits) in metrics.items():
                    estimate = estimate_at(collected, method, metric, weights)
                    cells.append(number(estimate, digits) if estimate else MISSING)
                updates = [sum(s * update for update, s in at.items()) for at in weights.values()]
                cells.append(number(over_runs(updates), 1))
                for kind, printed in COSTS.items():
                    if kind not in kinds:
                        cells.append(MISSING)
                        continue
                    by_run = kinds[kind].spent[0]
                    amounts = [
                        sum(share * by_run[method, run].get(u, 0.0) for u, share in at.items())
                        for run, at in weights.items()
                    ]
                    cells.append(printed.number(sum(amounts) / len(amounts)))
                key = f"{cost}:{budget}:{method}"
                row = (label, collected.title(method), *cells)
                rows.append(Row(key, row, first, method == "pcqc"))
    quality = (
        " Best questions: share of best ones among the first three answered questions of each "
        "consultation."
        if "best_questions" in metrics
        else ""
    )
    development = collected.benchmarks[collected.study.development].title
    caption = (
        f"Validation on {development}, as recorded in training, of every run when it had spent the "
        f"budget, mean ± SD over runs.{quality} Update and spent: means over runs. {RULE} "
        f"{COUNTED} A dash: not known of Shared SFT or of some run."
    )
    columns = (*FIRST, *(column for column, _ in metrics.values()), *LAST)
    return Table("equal_budgets", "Accuracy at equal budgets.", caption, columns, tuple(rows))
