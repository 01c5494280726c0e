"""A finished run in MLflow's vocabulary: parameters, metrics by update, tags and data sets."""

import hashlib
import json
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Any

from pcqc.study import Study
from pcqc.tracking.finished import FinishedRun, moment

LONGEST = 500  # characters of a parameter that the interface still shows in one piece

# A case's fields as a data-set schema of MLflow; options, facts and origin are JSON.
FIELDS = ("case_id", "source", "initial", "question", "options", "facts", "answer", "origin")
SCHEMA = json.dumps({"mlflow_colspec": [{"name": name, "type": "string"} for name in FIELDS]})


# Settings that only methods with groups of consultations read, and only methods with RL.
OF_GROUPS = (
    *("terminal_group", "question_group", "question_credit", "question_utility", "turn_credit"),
    *("belief", "continuations", "imagined_answers", "supervise", "beta"),
)
OF_LEARNING = (*OF_GROUPS, "kl_coefficient", "updates", "tree")

# Of the training, what the list of runs shows: reward, and the share of states that earn no credit.
LEARNED = ("reward/mean", "credit/zero_group_share")

# Settings of the study that say nothing about one of its runs.
OF_THE_STUDY = ("name", "title", "methods", "runs", "tracking", "absent", "assumptions")


def parameters(run: FinishedRun) -> dict[str, str]:
    """Nested settings of a run as flat `group.name` -> text, less those that the run does not read.

    The method's own are `method.<name>`, so that runs of several methods share their columns. A
    long value is cut and ends with its own digest; config.json has it whole, and has all.
    """
    method = run.settings["methods"][run.method]
    unread = OF_LEARNING if method["kind"] == "sft" else OF_GROUPS if method["tree"] else ("tree",)
    own = {name: value for name, value in method.items() if name not in (*unread, "rl")}
    rest = {name: value for name, value in run.settings.items() if name not in OF_THE_STUDY}
    return _flat({"method": own, **rest})


def _flat(settings: dict, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        if value is None:
            continue
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            flat[key] = _cut(text)
    return flat


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    sha = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[:LONGEST]} … (cut; sha256 {sha}, whole in config.json)"


def metrics(run: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """Yield (name, value, update, milliseconds since the run's start) of a run.

    `evaluation/<benchmark>/...` and `continuation/...` have the selected update as their step,
    `totals/...` the last. The numbers of updates keep their names; those of other events are
    prefixed with the event's kind.
    """
    # The interface keeps the order: what a reader looks for first comes first.
    whole = run.duration
    for name, value in means(run.study, [run.evaluation]).items():
        if name.startswith("evaluation/average/"):
            yield name, value, run.evaluation["update"], whole
    for benchmark, result in run.results.items():
        for name in ("accuracy", "turns", "actor_tokens"):
            key = f"evaluation/{benchmark}/{name}"
            yield key, float(result[name]), run.evaluation["update"], whole
    for update, evaluated in run.evaluation.get("further_updates", {}).items():
        for benchmark, result in evaluated["benchmarks"].items():
            for name in ("accuracy", "turns", "actor_tokens"):
                key = f"further_updates/{benchmark}/{name}"
                yield key, float(result[name]), int(update), whole
    if run.continuation:
        for name, value in run.continuation["success"].items():
            yield f"continuation/{name}", float(value), run.continuation["update"], whole
    if run.training:
        for name, value in run.training["totals"].items():
            yield f"totals/{name}", float(value), run.training["updates"], whole
    elapsed = 0
    for event in run.rows("training/events.jsonl"):
        prefix = "" if event["kind"] == "update" else f"{event['kind']}/"
        if "time" in event:  # rows of earlier versions have none
            elapsed = max(elapsed, moment(event["time"]) - run.started)
        for name, value in event.items():
            if name != "update" and is_number(value):
                yield prefix + name, float(value), event["update"], elapsed


def means(study: Study, evaluations: list[dict]) -> dict[str, float]:
    """Mean and sample standard deviation over a method's runs, named as the runs' own numbers.

    `evaluation/average/...` is of the runs' averages over all benchmarks, as in the tables.
    """
    found = {}
    for name in ("accuracy", "turns"):
        of_runs = [
            {b: float(e["benchmarks"][b][name]) for b in study.benchmarks if b in e["benchmarks"]}
            for e in evaluations
        ]
        averages = [mean(run.values()) for run in of_runs if len(run) == len(study.benchmarks)]
        columns = {b: [run[b] for run in of_runs if b in run] for b in study.benchmarks}
        for benchmark, values in {"average": averages, **columns}.items():
            if values:
                found[f"evaluation/{benchmark}/{name}"] = mean(values)
            if len(values) > 1:
                found[f"evaluation/{benchmark}/{name}_std"] = stdev(values)
    return found


def learned(trainings: list[list[dict]]) -> dict[str, float]:
    """Mean over a method's runs of what the list shows of each: the numbers of its last update.

    Args:
        trainings: the rows of each run's `events.jsonl`.
    """
    shown = []
    for events in trainings:
        updates = [event for event in events if event["kind"] == "update"]
        shown.append({name: row[name] for row in updates for name in LEARNED if name in row})
    columns = {name: [float(run[name]) for run in shown if name in run] for name in LEARNED}
    return {name: mean(values) for name, values in columns.items() if values}


def is_number(value: Any) -> bool:
    """Whether a value of an event is a measurement."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def tags(run: FinishedRun) -> dict[str, str]:
    """What identifies a run, and what it was made from."""
    commit = run.evaluation["git_commit"]
    found = {
        "study": run.study.name,
        "method": run.method,
        "run": run.run,
        "stage": "training and evaluation" if run.training else "evaluation",
        "seed": run.evaluation["seed"],
        "git_commit": commit,
        "mlflow.source.name": f"{run.study.name} {run.method} {run.run}",
        "mlflow.source.git.commit": commit,
        "settings_digest": run.settings_digest,
        "contents": run.contents,
        "transcripts": run.transcripts,
        "fingerprint.evaluation": run.evaluation["fingerprint"],
    }
    if run.training:
        found["fingerprint.training"] = run.training["fingerprint"]
        found["git_commit.training"] = run.training["git_commit"]
    # Manifests of earlier versions do not say on which machine they were made.
    for name, value in (run.training or run.evaluation).get("machine", {}).items():
        found[f"machine.{name}"] = value
    for name, entry in run.data.items():
        found[f"data_digest.{name}"] = entry["sha256"]
    return {name: str(value) for name, value in found.items()}


def difference(run: FinishedRun, parameters_before: dict, tags_before: dict) -> str:
    """In a line, how a run differs from what an earlier one has in MLflow."""
    now = parameters(run)
    changed = [
        f"{name}: {before} -> {now[name]}"
        for name, before in parameters_before.items()
        if name in now and now[name] != before
    ]
    if changed:
        return f"settings changed: {'; '.join(changed)}"[:LONGEST]
    now = tags(run)
    for name, value in sorted(now.items()):
        if name.startswith("data_digest.") and tags_before.get(name) != value:
            return f"the data set {name.removeprefix('data_digest.')} changed"
    for stage, done in (("training", "trained"), ("evaluation", "evaluated")):
        name = f"fingerprint.{stage}"
        if tags_before.get(name) != now.get(name):
            return f"{done} again after a change of its code, data or settings"
    return "mirrored again, from other files or in another layout"


def role(run: FinishedRun, data_set: str) -> str:
    """The role of a data set in the study: training, development, held_out, ..."""
    benchmark = run.study.benchmarks.get(data_set)
    return benchmark.role if benchmark else "training"
