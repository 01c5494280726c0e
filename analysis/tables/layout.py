"""Sentences and marks that several tables share."""

from collections.abc import Iterable, Sequence

from analysis.collected import Collected
from analysis.metrics import METRICS
from analysis.notices import in_words, on_base_models
from analysis.statistics.intervals import Effect
from analysis.table import Number, listed, number

FIXED = ":fixed"  # ends the key of a row that has a method at a fixed update, not a selected one


def mean_cell(
    collected: Collected,
    method: str,
    benchmarks: list[str],
    metric: str = "accuracy",
    run: str | None = None,
) -> Number:
    """A metric's mean over benchmarks, of all runs of a method or of one.

    A single run's accuracy on one benchmark has its binomial error over cases.
    """
    mean, cases = collected.average(method, benchmarks, metric, run), None
    if metric == "accuracy" and len(benchmarks) == 1:
        cases = collected.number_of_cases(benchmarks[0])
    return number(mean, METRICS[metric].digits, cases)


def sizes(collected: Collected, benchmarks: Iterable[str]) -> str:
    """`Title (1,268 cases), ...`: benchmarks with their numbers of cases, for a caption."""
    cases = {collected.benchmarks[n].title: collected.number_of_cases(n) for n in benchmarks}
    if len(cases) > 1 and len({*cases.values()}) == 1:
        return f"{listed(list(cases))}, {next(iter(cases.values())):,} cases each"
    return listed([f"{title} ({count:,} cases)" for title, count in cases.items()])


def development_cases(collected: Collected) -> str:
    """`400 cases of Clinic-Dev`, for a caption."""
    name = collected.study.development
    return f"{collected.number_of_cases(name):,} cases of {collected.benchmarks[name].title}"


def runs_sentence(collected: Collected, methods: Sequence[str]) -> str:
    """Over how many runs the cells of a table are means, for a caption."""
    several: dict[tuple[int, ...], list[str]] = {}  # runs on each base model -> titles
    single, start = [], []
    for method in methods:
        counts, title = collected.runs_on_each_base(method), collected.title(method)
        if collected.study.method(method).kind != "rl":
            start.append(title)
        elif sum(counts) > 1:
            several.setdefault(counts, []).append(title)
        else:
            single.append(title)
    sentences = []
    if len(several) == 1:
        sentences.append(f"Cells are mean ± SD over {number_of_runs(next(iter(several)))}.")
    elif several:
        parts = [
            f"{in_words(sum(counts))} of {listed(titles)}"
            for counts, titles in sorted(several.items(), key=lambda item: -sum(item[0]))
        ]
        where = on_base_models(collected.base_models)
        sentences.append(f"Cells are mean ± SD over runs{where}: {'; '.join(parts)}.")
    if single:
        sentences.append(f"{listed(single)}: {'one run each' if len(single) > 1 else 'one run'}.")
    if start and collected.base_models > 1:
        sentences.append(f"{listed(start)}: one checkpoint per base model, mean ± SD over these.")
    elif start:
        sentences.append(f"{listed(start)}: one checkpoint.")
    return " ".join(sentences)


def number_of_runs(counts: Sequence[int]) -> str:
    """`15 runs, five on each of three base models`.

    Args:
        counts: runs on each base model.
    """
    text = f"{in_words(sum(counts))} run{'s' * (sum(counts) > 1)}"
    if len(counts) > 1 and len({*counts}) == 1:
        return f"{text}, {in_words(counts[0])} on each of {in_words(len(counts))} base models"
    return f"{text}{on_base_models(len(counts))}"


def checkpoints_sentence(collected: Collected, methods: Iterable[str]) -> str:
    """At which checkpoints a table's runs are, for a caption; further rows may have fixed ones."""
    reported = [
        f"{collected.title(method)} {update}"
        for method, update in collected.each_at_fixed_update(methods).fixed.items()
    ]
    fixed = f" Rows that say so are at a fixed update instead ({listed(reported)})."
    development = collected.benchmarks[collected.study.development].title
    sentence = f"Each run is at its checkpoint with the highest accuracy on {development}."
    return sentence + fixed * bool(reported)


def base_models(numbers: Sequence[int]) -> str:
    """`base models 1 to 3`, `base models 1 and 3`."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and list(numbers) == list(range(first, last + 1)):
        return f"base models {first} to {last}"
    return f"base model{'s' * (len(numbers) > 1)} {listed([str(number) for number in numbers])}"


def random_parts(effects: Iterable[Effect]) -> str:
    """What the intervals of some differences take as random, for a caption, after "Intervals"."""
    kinds = {effect.random for effect in effects}
    if kinds == {"case"}:
        return "take cases alone as random, as each method has one run"
    if "case" in kinds:
        return "take cases as random, and runs where a method has several"
    return "take runs and cases as random and crossed"
