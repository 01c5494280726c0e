"""A finished run in MLflow's vocabulary: parameters, metrics by update, tags and data sets."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pcqc.tracking.finished import FinishedRun

LONGEST = 500  # characters of a parameter that the interface still shows in one piece

# A case's fields, in MLflow's form of a data-set schema; options, facts and origin are JSON.
FIELDS = ("case_id", "source", "initial", "question", "options", "facts", "answer", "origin")
SCHEMA = json.dumps({"mlflow_colspec": [{"name": name, "type": "string"} for name in FIELDS]})


# Settings that a method reads which draws groups of consultations, and which learns at all.
OF_GROUPS = ("terminal_group", "question_group", "question_credit", "supervise", "beta")
OF_LEARNING = (*OF_GROUPS, "kl_coefficient", "updates", "tree")


def parameters(run: FinishedRun) -> dict[str, str]:
    """Nested settings of a run as flat `group.name` -> text, less those its method does not read.

    A long value is cut and ends with its own digest; config.json has it whole, and has all.
    """
    method = run.settings["methods"][run.method]
    unread = OF_LEARNING if method["kind"] == "sft" else OF_GROUPS if method["tree"] else ("tree",)
    read = {name: value for name, value in method.items() if name not in unread}
    return _flat({**run.settings, "methods": {run.method: read}})


def _flat(settings: dict, prefix: str = "") -> dict[str, str]:
    flat = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
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
    """Yield (name, value, update, milliseconds of device time so far) of a run.

    `evaluation/<benchmark>/...` and `continuation/...` stand at the selected update, `totals/...`
    at the last; the updates' numbers keep their names, those of other events are prefixed with the
    event's kind.
    """
    # First come the numbers that a reader looks for first: the interface keeps the order.
    whole = round(1000 * run.device_seconds)
    for benchmark, result in run.results.items():
        for name in ("accuracy", "turns", "actor_tokens"):
            key = f"evaluation/{benchmark}/{name}"
            yield key, float(result[name]), run.evaluation["update"], whole
    if run.continuation:
        for name, value in run.continuation["success"].items():
            yield f"continuation/{name}", float(value), run.continuation["update"], whole
    if run.training:
        for name, value in run.training["totals"].items():
            yield f"totals/{name}", float(value), run.training["updates"], whole
    elapsed = 0
    for event in run.rows("training/events.jsonl"):
        prefix = "" if event["kind"] == "update" else f"{event['kind']}/"
        elapsed = max(elapsed, round(event.get("device_hours", 0) * 3_600_000))
        for name, value in event.items():
            if name != "update" and is_number(value):
                yield prefix + name, float(value), event["update"], elapsed


def is_number(value: Any) -> bool:
    """Whether a value of an event is a measurement."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def tags(run: FinishedRun) -> dict[str, str]:
    """What identifies a run and what it was made from."""
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
        "fingerprint.evaluation": run.evaluation["fingerprint"],
    }
    if run.training:
        found["fingerprint.training"] = run.training["fingerprint"]
        found["git_commit.training"] = run.training["git_commit"]
    for name, entry in run.data.items():
        found[f"data_digest.{name}"] = entry["sha256"]
    return {name: str(value) for name, value in found.items()}


def role(run: FinishedRun, data_set: str) -> str:
    """The role of a data set in the study: training, development, held_out, ..."""
    benchmark = run.study.benchmarks.get(data_set)
    return benchmark.role if benchmark else "training"
