"""A finished run in MLflow's vocabulary: parameters, metrics by update, and tags."""

import json
from collections.abc import Iterator
from statistics import mean
from typing import Any

from pcqc.results.recipe import flat
from pcqc.tracking.finished import FinishedRun, milliseconds

LONGEST = 500  # characters of a parameter that the interface still shows in one piece

# Settings of the study that say nothing about one of its runs.
OF_THE_STUDY = ("name", "title", "methods", "runs", "tracking", "absent", "assumptions")


def parameters(run: FinishedRun) -> dict[str, str]:
    """Settings of a run as `group.name` -> text, a long text cut; the run's manifest has all.

    The method's own are `method.<name>`, so that runs of several methods share their columns.
    """
    method = run.settings["methods"][run.method]
    rest = {name: value for name, value in run.settings.items() if name not in OF_THE_STUDY}
    settings = flat({"method": method, **rest})
    return {name: _text(value) for name, value in settings.items() if value is not None}


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (cut)"


def metrics(run: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """Yield (name, value, update, milliseconds since the run's start) of a run.

    `evaluation/<benchmark>/...` and `continuation/...` have the selected update as their step,
    `totals/...` the last. The numbers of updates keep their names; those of other events are
    prefixed with the event's kind.
    """
    evaluation, duration = run.evaluation, run.duration
    # The interface keeps the order: what a reader looks for first comes first.
    results = [evaluation["benchmarks"].get(benchmark) for benchmark in run.study.benchmarks]
    for name in ("accuracy", "turns") if all(results) else ():
        average = mean(float(result[name]) for result in results)
        yield f"evaluation/average/{name}", average, evaluation["update"], duration
    evaluated = [("evaluation", evaluation["update"], evaluation)]
    for update, further in evaluation.get("further_updates", {}).items():
        evaluated.append(("further_updates", int(update), further))
    for group, update, manifest in evaluated:
        for benchmark in run.study.benchmarks:
            if result := manifest["benchmarks"].get(benchmark):
                for name in ("accuracy", "turns", "actor_tokens"):
                    yield f"{group}/{benchmark}/{name}", float(result[name]), update, duration
    if run.continuation:
        for name, value in run.continuation["success"].items():
            yield f"continuation/{name}", float(value), run.continuation["update"], duration
    if run.training:
        for name, value in run.training["totals"].items():
            yield f"totals/{name}", float(value), run.training["updates"], duration
    elapsed = 0
    for event in run.rows("training/events.jsonl"):
        prefix = "" if event["kind"] == "update" else f"{event['kind']}/"
        elapsed = max(elapsed, milliseconds(event["time"]) - run.started)
        for name, value in event.items():
            if name != "update" and is_number(value):
                yield prefix + name, float(value), event["update"], elapsed


def is_number(value: Any) -> bool:
    """Whether a value of an event is a measurement."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def tags(run: FinishedRun) -> dict[str, str]:
    """What identifies a run, and what it was made from."""
    commit = run.evaluation["git_commit"]
    values = {
        "study": run.study.name,
        "method": run.method,
        "run": run.run,
        "stage": "training and evaluation" if run.training else "evaluation",
        "seed": run.study.seed(run.run),
        "git_commit": commit,
        "mlflow.source.name": f"{run.study.name} {run.method} {run.run}",
        "mlflow.source.git.commit": commit,
        "contents": run.contents,
        "transcripts": run.transcripts,
        "recipe": run.recipe,
    }
    for name, value in (run.training or run.evaluation)["machine"].items():
        values[f"machine.{name}"] = value
    return {name: str(value) for name, value in values.items()}
