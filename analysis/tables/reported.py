"""Tables of the checkpoints that the paper reports.

Where the study's `also_evaluate` names updates, methods are at the last of these; else each run is
at its selected checkpoint.
"""

from dataclasses import replace

from analysis.budgets import trained
from analysis.collected import Collected
from analysis.notices import in_words
from analysis.table import MISSING, Cell, Column, Number, Row, Table, listed, mark_best, number
from analysis.tables.layout import mean_cell, number_of_runs
from pcqc_study import describe

BENCHMARK = Column("benchmark", "Benchmark", numeric=False)


def pcqc_runs(collected: Collected) -> Table:
    """Accuracy of each run of PCQC: runs across; benchmarks and their means down."""
    collected = collected.at_fixed_update(["pcqc"])
    runs, names, primary = collected.runs("pcqc"), [*collected.benchmarks], collected.primary
    others = [name for name in names if name not in primary]
    members = {name: [name] for name in primary} | {"mean_of_primary": primary}
    members |= {name: [name] for name in others} | ({"mean_of_all": names} if others else {})
    rows = []
    for key, averaged in members.items():
        single = [mean_cell(collected, "pcqc", averaged, run=run) for run in runs]
        mean = replace(number(collected.average("pcqc", averaged), 2), best=key not in names)
        title = f"Mean ({len(averaged)} benchmarks)"
        title = collected.benchmarks[key].title if key in names else title
        rule = key not in names or [key] == others[:1]
        rows.append(Row(key, (title, *single, mean), rule=rule))
    updates = [collected.update("pcqc", run) for run in runs]
    where = (
        f"Every run is at update {updates[0]}."
        if collected.fixed
        else "Each run is at the checkpoint selected for it, the most accurate one on the "
        f"development benchmark (updates {', '.join(map(str, updates))})."
    )
    caption = (
        f"{where} Runs differ in their seed alone. Bold means are over benchmarks, taken within "
        "each run first."
    )
    columns = (
        BENCHMARK,
        *(Column(f"run_{run}", f"Run {run}") for run in runs),
        Column("mean", "Mean ± sample SD"),
    )
    title = "Diagnostic accuracy (%) across independent PCQC training runs."
    return Table("pcqc_runs", title, caption, columns, tuple(rows))


def same_state_q1(collected: Collected) -> Table:
    """PCQC against its control that supervises the executed question: one run, then all."""
    methods = ("pcqc", "same_state_q1")
    collected = collected.at_fixed_update(methods)
    names, run = list(collected.benchmarks), collected.run

    def cells(benchmarks: list[str], run: str | None, bold: bool) -> list[Number]:
        """Accuracy of both, then Q/ep.; where bold, the better of the two is."""
        marked = []
        for metric, best in (("accuracy", max), ("turns", min)):
            both = [mean_cell(collected, m, benchmarks, metric, run) for m in methods]
            wanted = best(cell.value for cell in both)
            marked += [replace(cell, best=bold and cell.value == wanted) for cell in both]
        return marked

    rows = [
        Row(name, (collected.benchmarks[name].title, *cells([name], run, False))) for name in names
    ]
    rows.append(Row("mean", ("Mean", *cells(names, run, True)), rule=True))
    counts = dict.fromkeys(str(len(collected.runs(method))) for method in methods)
    rows.append(Row("all_runs", (f"Mean, {'/'.join(counts)} runs", *cells(names, None, True))))
    columns = (
        BENCHMARK,
        *(
            Column(f"{method}_{metric}", collected.title(method), title)
            for metric, title in (("accuracy", "Accuracy (%)"), ("turns", "Q/ep."))
            for method in methods
        ),
    )
    updates = [collected.update(method, run) for method in methods]
    made = [collected.record(method, run)["training"]["updates"] for method in methods]
    where = (
        f"both at update {updates[0]}"
        if collected.fixed
        else f"at the selected updates {updates[0]} and {updates[1]}"
    )
    caption = (
        "PCQC trains on all candidate questions of a state; Same-State-Q1 computes the same credit "
        f"and trains on the executed question alone. Run {run} of each, trained for {made[0]} "
        f"and {made[1]} updates, {where}. Mean: over all {in_words(len(names))} benchmarks, "
        "which count alike. Last row: the same, mean ± SD over all runs. Bold: the higher "
        "accuracy and the fewer questions (Q/ep.) of a row."
    )
    title = "Candidate supervision at a matched training budget."
    return Table("same_state_q1", title, caption, columns, tuple(rows))


def generation_length(collected: Collected) -> Table:
    """Tokens of one checkpoint of GRPO, PCQC's runs and its reduction; other methods in notes."""
    control, metric = "executed_local", "actor_tokens"
    collected = collected.each_at_fixed_update(collected.methods())
    names, run = list(collected.benchmarks), collected.run
    rows = []
    for name in names:
        before = mean_cell(collected, "grpo", [name], metric, run)
        after = mean_cell(collected, "pcqc", [name], metric)
        reduction = Number(100 * (1 - after.value / before.value), digits=1, unit="%")
        rows.append(Row(name, (collected.benchmarks[name].title, before, after, reduction)))

    def mean(method: str, benchmarks: list[str]) -> str:
        return f"{collected.average(method, benchmarks, metric).mean:.2f}"

    notes = []
    if control in collected.methods():
        each = [f"{mean(control, [n])} ({collected.benchmarks[n].title})" for n in names]
        notes.append(f"{collected.title(control)}: {listed(each)}.")
    others = [m for m in collected.methods() if m not in ("grpo", "pcqc", control)]
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
        BENCHMARK,
        *(Column(method, collected.title(method)) for method in ("grpo", "pcqc")),
        Column("reduction", "Reduction"),
    )
    title = "Mean actor-generated tokens per consultation."
    return Table("generation_length", title, caption, columns, tuple(rows), tuple(notes))


def training_cost(collected: Collected) -> Table:
    """Accuracy of one run of every RL method, and what its training cost up to that checkpoint."""
    study, run, development = collected.study, collected.run, collected.study.development
    titles = {m: t for m, t in collected.rows("method").items() if study.method(m).kind == "rl"}
    ran = [method for method in trained(collected) if method in titles]
    collected = collected.each_at_fixed_update(ran)
    spent = {
        (method, cost): collected.spent(method, run, cost)
        for method in ran
        for cost in ("device_hours", "trajectories")
    }
    digits = 2 if max((spent[method, "device_hours"] for method in ran), default=0) >= 10 else 4
    rows = []
    for method, title in titles.items():
        cells: list[Cell] = [MISSING] * 4
        if method in ran:
            cells = [
                mean_cell(collected, method, [development], run=run),
                Number(spent[method, "device_hours"], digits=digits),
                Number(spent[method, "trajectories"], digits=0),
                mean_cell(collected, method, [development], "turns", run),
            ]
        rows.append(Row(method, (title, *cells), rule=method == "pcqc", strong=method == "pcqc"))
    groups = [
        f"{collected.title(method)} ({describe.size(study.method(method))}, "
        f"{collected.checkpoint(method, run)})"
        for method in ran
    ]
    caption = (
        f"Run {run} of each method, at one checkpoint: {', '.join(groups)}. Accuracy and Q/ep. "
        "(turns before the final answer) are of that checkpoint; the costs are those of training "
        "up to it. Device-hours: policy training, rollouts, patient answers and scoring, on all "
        "devices allocated (on CPUs, hours of processes); Shared SFT and evaluation are left out. "
        "Bold: the highest accuracy."
    )
    columns = (
        Column("method", "Method", numeric=False),
        Column("accuracy", "Acc. (%) ↑"),
        Column("device_hours", "Device-hours"),
        Column("trajectories", "Complete trajectories"),
        Column("turns", "Q/ep."),
    )
    title = f"Diagnostic accuracy and training cost on {collected.benchmarks[development].title}."
    # The lowest cost is not marked: a checkpoint that was chosen early has cost little.
    return Table("training_cost", title, caption, columns, tuple(mark_best(rows, 1)))
