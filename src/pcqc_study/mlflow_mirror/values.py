"""A finished run in MLflow's vocabulary: parameters, metrics by update, and tags."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from pcqc.logged.updates import EVENTS, TIMES, joined
from pcqc_base.system.files import digest
from pcqc_study.fingerprint import Fingerprint, flat
from pcqc_study.mlflow_mirror.finished import FinishedRun, milliseconds
from pcqc_study.study_file import Study

# The interface draws groups of charts by name: "checkpoints" comes first.
PREFIXES = {"update": "", "validation": "checkpoints/"}
LONGEST = 500  # characters of a parameter that the interface still shows in one piece

# Settings of the study that say nothing about one of its runs.
OF_THE_STUDY = ("name", "title", "methods", "runs", "tracking", "absent", "assumptions")


def settings(study: Study, method: str) -> dict[str, Any]:
    """Settings of a method's runs by group.

    The method's own are `method`, so that runs of several methods share their columns.
    """
    everything = study.to_dict()
    rest = {name: value for name, value in everything.items() if name not in OF_THE_STUDY}
    own = {"method": everything["methods"][method], "rl": asdict(study.rl_of(study.method(method)))}
    return {**rest, **own}


def parameters(study: Study, method: str) -> dict[str, str]:
    """The settings as `group.name` -> text, a long text cut; manifests have all."""
    named = flat(settings(study, method))
    return {name: _text(value) for name, value in named.items() if value is not None}


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (cut)"


def metrics(run: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """Yield (name, value, update, milliseconds since the run's start) of a run.

    `evaluation/<benchmark>/...` and `continuation/...` have the selected update as their step,
    `totals/...` the last. The numbers of updates keep their names; those of checkpoints on the
    development benchmark are `checkpoints/...`, from Shared SFT at update 0 on.
    """
    # The interface keeps the order: what a reader looks for first comes first.
    yield from results(run)
    for name, value in start(run.at_start):
        yield name, value, 0, 0
    elapsed = 0
    rows = (run.rows("train", f"{name}.jsonl") for name in (EVENTS, TIMES))
    for event in joined(*rows):
        elapsed = max(elapsed, milliseconds(event["time"]) - run.started)
        for name, value in of_event(event):
            yield name, value, event["update"], elapsed


def results(run: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """Yield what `metrics` does of a run's evaluation, continuation study and totals."""
    evaluation, duration = run.evaluation, run.duration
    reached = [evaluation["benchmarks"].get(benchmark) for benchmark in run.study.benchmarks]
    for name in ("accuracy", "turns") if all(reached) else ():
        average = mean(float(result[name]) for result in reached)
        yield f"evaluation/average/{name}", average, evaluation["update"], duration
    evaluated = [("evaluation", evaluation["update"], evaluation)]
    for update, further in evaluation.get("further_updates", {}).items():
        evaluated.append(("further_updates", int(update), further))
    for group, update, manifest in evaluated:
        for benchmark in run.study.benchmarks:
            if result := manifest["benchmarks"].get(benchmark):
                for name in ("accuracy", "turns", "actor_tokens"):
                    yield f"{group}/{benchmark}/{name}", float(result[name]), update, duration
    if run.continued:
        for name, value in run.continued["success"].items():
            yield f"continuation/{name}", float(value), run.continued["update"], duration
    if run.training:
        for name, value in run.training["totals"].items():
            yield f"totals/{name}", float(value), run.training["updates"], duration


def start(at_start: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of how Shared SFT did on the development benchmark."""
    for name in ("accuracy", "turns", "actor_tokens") if at_start else ():
        yield f"{PREFIXES['validation']}{name}", float(at_start[name])


def of_event(event: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of the numbers of an event.

    A validation's cases and tokens are left out: the charts of accuracy would be lost among them.
    """
    prefix = PREFIXES.get(event["kind"], f"{event['kind']}/")
    uses = ("cases", "read/", "sampled/") if event["kind"] == "validation" else ()
    for name, value in event.items():
        if name != "update" and is_number(value) and not name.startswith(uses):
            yield prefix + name, float(value)


def means(runs: Sequence[FinishedRun]) -> Iterator[tuple[str, float, int, int]]:
    """Yield the means over a method's runs, as `metrics` does, of what all of them have.

    What each run has once, such as the accuracy of its selected checkpoint, has the last of their
    updates; a curve is averaged update by update.
    """
    curves: dict[str, list[dict[int, tuple[float, int]]]] = defaultdict(lambda: [{} for _ in runs])
    for number, run in enumerate(runs):
        for name, value, update, elapsed in metrics(run):
            curves[name][number][update] = (value, elapsed)
    for name, by_run in curves.items():
        if all(len(points) == 1 for points in by_run):
            last = max(update for points in by_run for update in points)
            by_run = [{last: point} for points in by_run for point in points.values()]
        for update in sorted(set.intersection(*(set(points) for points in by_run))):
            reached = [points[update] for points in by_run]
            yield name, mean(v for v, _ in reached), update, max(elapsed for _, elapsed in reached)


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
        "current": "yes",
        "seed": run.study.seed(run.run),
        "git_commit": commit,
        "mlflow.source.name": f"{run.study.name} {run.method} {run.run}",
        "mlflow.source.git.commit": commit,
        "contents": run.contents,
        "transcripts": run.transcripts,
        "fingerprint": Fingerprint.of(run.evaluation).short,
    }
    if run.training:
        values["selected_update"] = run.evaluation["update"]
    for name, value in (run.training or run.evaluation)["machine"].items():
        values[f"machine.{name}"] = value
    return {name: str(value) for name, value in values.items()}


def tags_of_method(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """What identifies a method's parent run: what its runs have in common, and what each has."""
    each = [tags(run) for run in runs]
    shared = dict(set.intersection(*(set(values.items()) for values in each)))
    names = ("study", "method", "current", "git_commit", "mlflow.source.git.commit")
    updates = ", ".join(values["selected_update"] for values in each if "selected_update" in values)
    return {
        **{name: shared[name] for name in names if name in shared},
        **({"selected_update": updates} if updates else {}),
        "stage": "method",
        "mlflow.source.name": f"{each[0]['study']} {each[0]['method']}",
        "contents": digest([run.contents for run in runs]),
    }
