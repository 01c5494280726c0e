"""Mean actor-generated tokens per consultation."""

from collections.abc import Mapping

from analysis.collected import Collected
from analysis.published import RUNS, published
from analysis.statistics import Estimate
from analysis.table import Column, Number, Row, Table, listed, number
from analysis.tables.layout import Place, Words, runs_sentence

NAME = "generation_length"
METHODS = ("grpo", "pcqc")


def build(collected: Collected) -> Table:
    """GRPO, PCQC and its reduction on every benchmark; the other methods in a note."""
    place = Place.study(collected, collected.titles(METHODS))
    names = list(collected.benchmarks)
    values = {
        name: {m: collected.estimate(m, name, "actor_tokens") for m in METHODS} for name in names
    }
    others = [
        f"{collected.title(method)} {collected.average(method, names, 'actor_tokens').mean:.1f}"
        for method in collected.methods()
        if method not in METHODS
    ]
    words = Words(
        NAME,
        "Mean actor-generated tokens per consultation.",
        f"{runs_sentence(collected, METHODS)} Reductions are relative to GRPO.",
        (f"Averages over the benchmarks of the other methods: {listed(others)}.",)
        if others
        else (),
    )
    return _layout(words, place, values)


def paper() -> Table:
    """The published table."""
    source = published().tables[NAME]
    values = {
        name: {"grpo": Estimate(row["grpo"], None, 1), "pcqc": Estimate(row["pcqc"], None, 3)}
        for name, row in source["tokens"].items()
    }
    other = source["in_prose"]["executed_local"]
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
