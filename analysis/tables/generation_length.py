"""Mean actor-generated tokens per consultation."""

from analysis.collected import Collected
from analysis.statistics.estimates import Estimate
from analysis.table import Column, Number, Row, Table, listed, number
from analysis.tables.layout import number_of_runs

CONTROL, METRIC = "executed_local", "actor_tokens"


def build(collected: Collected) -> Table:
    """One checkpoint of GRPO, PCQC's runs and its reduction; the other methods in notes.

    Methods of the study's `also_evaluate` are at the last update there.
    """
    collected = collected.each_at_fixed_update(collected.methods())
    names, run = list(collected.benchmarks), collected.run
    rows = []
    for name in names:
        before = Estimate(collected.of_run("grpo", run, name, METRIC), None, 1)
        after = collected.estimate("pcqc", name, METRIC)
        reduction = Number(100 * (1 - after.mean / before.mean), digits=1, unit="%")
        title = collected.benchmarks[name].title
        rows.append(Row(name, (title, number(before, 1), number(after, 1), reduction)))

    def mean(method: str, benchmarks: list[str]) -> str:
        return f"{collected.average(method, benchmarks, METRIC).mean:.2f}"

    notes = []
    if CONTROL in collected.methods():
        each = [f"{mean(CONTROL, [n])} ({collected.benchmarks[n].title})" for n in names]
        notes.append(f"{collected.title(CONTROL)}: {listed(each)}.")
    others = [m for m in collected.methods() if m not in ("grpo", "pcqc", CONTROL)]
    if others:
        averages = [f"{collected.title(m)} {mean(m, names)}" for m in others]
        notes.append(f"Averages over the benchmarks: {listed(averages)}.")
    fixed = [
        f"{collected.title(method)} at update {collected.fixed[method]}"
        for method in collected.methods()
        if method in collected.fixed and method != "grpo"
    ]
    caption = (
        "Tokens that the doctor generates in a consultation. "
        f"{collected.title('grpo')}: run {run} at its {collected.checkpoint('grpo', run)}. "
        f"{collected.title('pcqc')}: mean ± SD over "
        f"{number_of_runs(collected.runs_on_each_base('pcqc'))}. Reduction: of the second relative "
        "to the first." + (f" {listed(fixed)}." if fixed else "")
    )
    columns = (
        Column("benchmark", "Benchmark", numeric=False),
        *(Column(method, collected.title(method)) for method in ("grpo", "pcqc")),
        Column("reduction", "Reduction"),
    )
    title = "Mean actor-generated tokens per consultation."
    return Table("generation_length", title, caption, columns, tuple(rows), tuple(notes))
