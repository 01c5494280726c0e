"""Mean actor-generated tokens per consultation."""

from collections.abc import Mapping

from analysis.collected import Collected
from analysis.published import RUNS, published
from analysis.statistics.estimates import Estimate
from analysis.table import Column, Number, Row, Table, listed, number
from analysis.tables.layout import Place, Words, runs_sentence

NAME = "generation_length"
METHODS = ("grpo", "pcqc")
CONTROL, METRIC = "executed_local", "actor_tokens"


def build(collected: Collected) -> Table:
    """One checkpoint of GRPO, PCQC's runs and its reduction; the other methods in notes.

    Methods of the study's `also_evaluate` are at the last update there.
    """
    collected = collected.each_at_fixed_update(collected.methods())
    place = Place.study(collected, collected.titles(METHODS))
    names, run = list(collected.benchmarks), collected.run
    values = {
        name: {
            "grpo": Estimate(collected.of_run("grpo", run, name, METRIC), None, 1),
            "pcqc": collected.estimate("pcqc", name, METRIC),
        }
        for name in names
    }
    others = [m for m in collected.methods() if m not in (*METHODS, CONTROL)]
    averages = [f"{collected.title(m)} {_mean(collected, m, names)}" for m in others]
    notes = (f"Averages over the benchmarks: {listed(averages)}.",) if others else ()
    if CONTROL in collected.methods():
        shown = [f"{_mean(collected, CONTROL, [n])} ({t})" for n, t in place.benchmarks.items()]
        notes = (f"{collected.title(CONTROL)}: {listed(shown)}.", *notes)
    words = Words(
        NAME,
        "Mean actor-generated tokens per consultation.",
        f"{runs_sentence(collected, ['pcqc'])} {collected.title('grpo')}: run {run} at its "
        f"{collected.checkpoint('grpo', run)}. Reductions are relative to it."
        f"{_fixed(collected)}",
        notes,
    )
    return _layout(words, place, values)


def _fixed(collected: Collected) -> str:
    """` PCQC at update 222.`; empty where all but GRPO are at selected checkpoints."""
    others = [m for m in collected.methods() if m in collected.fixed and m != "grpo"]
    shown = listed([f"{collected.title(m)} at update {collected.fixed[m]}" for m in others])
    return f" {shown}." if others else ""


def _mean(collected: Collected, method: str, names: list[str]) -> str:
    return f"{collected.average(method, names, METRIC).mean:.2f}"


def paper() -> Table:
    """The published table."""
    source = published().tables[NAME]
    values = {
        name: {"grpo": Estimate(row["grpo"], None, 1), "pcqc": Estimate(row["pcqc"], None, 3)}
        for name, row in source["tokens"].items()
    }
    other = source["in_prose"][CONTROL]
    place = Place.paper(METHODS, list(values))
    shown = listed([f"{other[name]} ({title})" for name, title in place.benchmarks.items()])
    words = Words(
        NAME,
        "Mean actor-generated tokens per consultation in the paper.",
        f"PCQC: mean over {RUNS} RL runs; GRPO: one checkpoint.",
        (f"Executed-local: {shown}.",),
    )
    return _layout(words, place, values)


def _layout(words: Words, place: Place, values: Mapping[str, Mapping[str, Estimate]]) -> Table:
    columns = [Column("benchmark", "Benchmark", numeric=False)]
    columns += [Column(method, title) for method, title in place.methods.items()]
    columns.append(Column("reduction", "Reduction"))
    rows = []
    for name, title in place.benchmarks.items():
        before, after = (values[name][method] for method in METHODS)
        reduction = Number(100 * (1 - after.mean / before.mean), digits=1, unit="%")
        rows.append(Row(name, (title, number(before, 1), number(after, 1), reduction)))
    return words.table(columns, rows)
