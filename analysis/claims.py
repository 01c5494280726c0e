"""The paper's five claims, each judged by a study: estimate, interval, verdict."""

from dataclasses import dataclass

from analysis.collected import Collected
from analysis.continuation import RULES, main_policy
from analysis.published import published
from analysis.statistics.bootstrap import Interval, runs_and_cases_interval
from analysis.table import listed


@dataclass(frozen=True)
class Comparison:
    """Minuend minus subtrahend in one metric, averaged over runs and benchmarks."""

    label: str
    difference: float
    interval: Interval
    unit: str


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper reports for it, and what the study says.

    Attributes:
        missing: why the claim, or a part of it, is not tested.
    """

    key: str
    text: str
    published: str
    comparisons: tuple[Comparison, ...]
    missing: str = ""


def claims(collected: Collected) -> list[Claim]:
    """The five claims in the paper's order, as far as the study's methods test them."""
    paper = published().tables["prose"]
    everywhere = list(collected.benchmarks)
    return [
        _claim(
            collected,
            "accuracy",
            "PCQC diagnoses more accurately than GRPO and ATPO.",
            f"+{paper['gain_over_grpo']} over GRPO, +{paper['gain_over_atpo']} over ATPO",
            ("grpo", "atpo"),
            everywhere,
        ),
        _claim(
            collected,
            "turns",
            "PCQC asks fewer questions than GRPO.",
            f"{paper['turn_reduction']['average']}% fewer",
            ("grpo",),
            everywhere,
            metric="turns",
        ),
        _claim(
            collected,
            "counterfactual",
            "Comparing candidates gains beyond feedback on the executed question.",
            f"+{paper['gain_over_executed_local']} over Executed-local",
            ("executed_local",),
            collected.primary,
        ),
        _claim(
            collected,
            "unexecuted",
            "Supervising unexecuted questions gains beyond the executed ones.",
            f"+{_same_state_gain():.2f} over Same-State-Q1",
            ("same_state_q1",),
            everywhere,
        ),
        _utility_claim(collected),
    ]


def _utility_claim(collected: Collected) -> Claim:
    success = published().tables["continuation"]["gains"]["uniform"]
    low, high = success["interval"]
    gains = _utility_gains(collected)
    return Claim(
        "utility",
        "A question's diagnostic utility predicts downstream success.",
        f"+{success['gain']:.2f} [{low:+.2f}, {high:+.2f}] over uniform selection",
        gains,
        "" if gains else "This study has no continuations.",
    )


def _utility_gains(collected: Collected) -> tuple[Comparison, ...]:
    """Highest-utility selection against the paper's two rivals, where the study continued."""
    if not collected.study.continuation:
        return ()
    found = main_policy(collected)
    gains = [(RULES[rival], found.gain_over(rival)) for rival in ("uniform", "executed")]
    return tuple(
        Comparison(f"Highest-utility − {label[0].lower()}{label[1:]}", g.gain, g.interval, "pp")
        for label, g in gains
        if g
    )


def _same_state_gain() -> float:
    accuracy = published().tables["same_state_q1"]["accuracy"]
    return accuracy["pcqc"]["mean"] - accuracy["same_state_q1"]["mean"]


def _claim(
    collected: Collected,
    key: str,
    text: str,
    paper: str,
    rivals: tuple[str, ...],
    benchmarks: list[str],
    metric: str = "accuracy",
) -> Claim:
    """A claim that PCQC is above its rivals in accuracy, or below them in turns."""
    absent = [method for method in ("pcqc", *rivals) if method not in collected.methods()]
    present = [] if "pcqc" in absent else [rival for rival in rivals if rival not in absent]
    found = tuple(compared(collected, "pcqc", rival, benchmarks, metric) for rival in present)
    titles = listed([published().methods[method] for method in absent])
    return Claim(key, text, paper, found, f"Not run: {titles}." if absent else "")


def compared(
    collected: Collected, method: str, rival: str, benchmarks: list[str], metric: str
) -> Comparison:
    """The improvement of a method over a rival: more accuracy in points, or fewer turns."""
    first, second = (method, rival) if metric == "accuracy" else (rival, method)
    arrays = [
        (collected.per_case(first, name, metric), collected.per_case(second, name, metric))
        for name in benchmarks
    ]
    difference = sum(float(a.mean() - b.mean()) for a, b in arrays) / len(arrays)
    unit = "pp" if metric == "accuracy" else "turns"
    label = f"{collected.title(first)} − {collected.title(second)}"
    return Comparison(label, difference, runs_and_cases_interval(arrays), unit)
