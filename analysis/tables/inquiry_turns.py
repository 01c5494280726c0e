"""Mean inquiry turns per consultation (Q/ep.) on every benchmark."""

from analysis.collected import Collected
from analysis.published import RUNS, published
from analysis.table import Table
from analysis.tables.layout import Place, Words, method_by_benchmark, runs_sentence
from analysis.tables.main_accuracy import by_benchmark

NAME, METRIC, DIGITS = "inquiry_turns", "turns", 3


def build(collected: Collected) -> Table:
    """Non-final interaction attempts per consultation."""
    methods = collected.methods("method")
    place = Place.study(collected, collected.rows("method"))
    words = Words(
        NAME,
        f"Mean inquiry turns per consultation (Q/ep.): {collected.study.title}.",
        f"Cases: {place.sizes()}; at most {collected.study.protocol.max_turns} turns with the "
        f"final answer. {runs_sentence(collected, methods)} "
        "Avg.: unweighted mean over benchmarks, its deviation over the runs' averages.",
    )
    return method_by_benchmark(words, place, by_benchmark(collected, methods, METRIC), DIGITS)


def paper() -> Table:
    """The published table."""
    values = published().by_benchmark(NAME)
    place = Place.paper(list(values))
    words = Words(
        NAME,
        "Mean inquiry turns per consultation (Q/ep.) in the paper.",
        f"GRPO, ATPO and PCQC: mean ± sample standard deviation over {RUNS} RL runs; at most "
        f"{published().tables['training']['max_turns']} turns with the final answer. "
        "Avg.: unweighted mean over benchmarks.",
    )
    return method_by_benchmark(words, place, values, DIGITS)
