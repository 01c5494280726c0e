"""Sentences and marks that several tables share."""

from collections.abc import Iterable, Sequence

from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.statistics.intervals_over_runs_and_cases import Effect
from analysis.table import Number, listed

FIXED = ":fixed"  # ends the key of a row that has a method at a fixed update, not a selected one


def sizes(collected: Collected, benchmarks: Iterable[str]) -> str:
    """`Title (1,268), ...`: benchmarks with their numbers of cases, for a caption."""
    return listed(
        [f"{collected.benchmarks[n].title} ({collected.number_of_cases(n):,})" for n in benchmarks]
    )


def development_cases(collected: Collected) -> str:
    """`Clinic-Dev, 400 cases`, for a caption."""
    name = collected.study.development
    return f"{collected.benchmarks[name].title}, {collected.number_of_cases(name):,} cases"


def runs_sentence(collected: Collected, methods: Sequence[str]) -> str:
    """Which methods are means over how many runs, for a caption."""
    by_count: dict[int, list[str]] = {}
    for method in methods:
        trained = collected.study.method(method).kind == "rl"
        count = len(collected.runs(method)) if trained else 1
        by_count.setdefault(count, []).append(collected.title(method))
    sentences = [
        f"{listed(titles)}: mean ± SD over {count} runs{on_base_models(collected.base_models)}."
        for count, titles in sorted(by_count.items(), reverse=True)
        if count > 1
    ]
    if single := by_count.get(1):
        each = " each" if len(single) > 1 else ""
        each = " of each base model" if collected.base_models > 1 else each
        sentences.append(f"{listed(single)}: one checkpoint{each}.")
    return " ".join(sentences)


def checkpoints_sentence(collected: Collected, methods: Iterable[str]) -> str:
    """At which checkpoints a table's runs are, for a caption; further rows may have fixed ones."""
    reported = [
        f"{collected.title(method)} {update}"
        for method, update in collected.each_at_fixed_update(methods).fixed.items()
    ]
    fixed = f"; in rows that say so, at a fixed update ({listed(reported)})" if reported else ""
    development = collected.benchmarks[collected.study.development].title
    return f"At the checkpoints selected on {development}{fixed}."


def by_base(effect: Effect) -> str:
    """`+6.47 (base model 1) and +8.44 (base model 2)`: a difference under every base model."""
    parts = effect.by_base.items()
    return listed([f"{Number(part, signed=True).text()} ({base})" for base, part in parts])


def random_parts(effects: Iterable[Effect]) -> str:
    """What the intervals of some differences take as random, for a caption."""
    kinds = {effect.random for effect in effects}
    if kinds == {"case"}:
        return "cases alone are random, as each method has one run"
    if "case" in kinds:
        return "cases are random, and runs where a method has several"
    return "cases and runs are random and crossed"
