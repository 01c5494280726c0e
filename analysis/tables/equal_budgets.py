"""What each method has learned for equal consultations, equal tokens or equal compute."""

from analysis.budgets import BEST_QUESTIONS, COSTS, COUNTED, budgets, estimate_at, rule, trained
from analysis.collected import Collected
from analysis.table import MISSING, Cell, Column, Row, Table, mean_of_runs, number
from analysis.training_flops import COMPUTE

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
    Column(COMPUTE, "TFLOPs", "Spent"),
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
                label = COSTS[cost].text(amount) if first else ""
                runs = collected.runs(method)
                weights = {run: spent.weights(method, run, budget) for run in runs}
                cells: list[Cell] = []
                for metric, (_, digits) in metrics.items():
                    estimate = estimate_at(collected, method, metric, weights)
                    cells.append(number(estimate, digits) if estimate else MISSING)
                updates = [sum(s * update for update, s in at.items()) for at in weights.values()]
                cells.append(mean_of_runs(updates, 1))
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
    quality = BEST_QUESTIONS if "best_questions" in metrics else ""
    development = collected.benchmarks[collected.study.development].title
    caption = (
        f"Validation on {development}, recorded in training, of every run when its training had "
        "cost the budget, whatever its checkpoint's accuracy: mean ± SD over runs. Q/ep.: turns "
        f"before the final answer.{quality} Update and spent: means over runs. A dash: unknown of "
        "Shared SFT or of a run."
    )
    smaller = "The two smaller budgets are a half and a quarter of it."
    notes = (f"{rule(kinds.values())} {smaller} {COUNTED}",) if kinds else ()
    columns = (*FIRST, *(column for column, _ in metrics.values()), *LAST)
    return Table(
        "equal_budgets", "Accuracy at equal budgets.", caption, columns, tuple(rows), notes
    )
