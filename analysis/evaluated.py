"""Runs as evaluated on this machine: what answers for one method, or an ablation, by itself.

Tables read what was collected from MLflow, of every method of a study. An ablation is made on
demand, and is in no collection.
"""

import dataclasses
from typing import Any

import pandas as pd

from analysis.collected import Collected
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.predictions import read_predictions
from pcqc.system.files import read_json, read_jsonl


def evaluated_methods(study: Study) -> list[str]:
    """Methods, controls and ablations of which every run is evaluated."""
    paths = Paths.of(study)
    return [
        name
        for name, method in study.methods.items()
        if method.runs
        and all((paths.evaluation(name, run) / "manifest.json").exists() for run in method.runs)
    ]


def load_evaluated(study: Study, methods: list[str]) -> Collected:
    """The predictions and curves of these methods' runs, and nothing of the others."""
    paths = Paths.of(study)
    frames, records, events = [], {}, []
    for name in methods:
        for run in study.method(name).runs:
            folder = paths.evaluation(name, run)
            job_output(study, "evaluate", name, run).require()
            manifest = read_json(folder / "manifest.json")
            found = manifest["benchmarks"]
            frames += [
                read_predictions(folder / found[benchmark]["predictions"]).to_pandas()
                for benchmark in study.benchmarks
            ]
            training = paths.run(name, run) / "manifest.json"
            if training.exists():
                job_output(study, "train", name, run).require(training.name, "events.jsonl")
                rows = read_jsonl(training.with_name("events.jsonl"))
                events += [{"method": name, "run": run, **event} for _, event in rows]
            records[name, run] = {
                "evaluation": manifest,
                "training": read_json(training) if training.exists() else None,
            }
    return Collected(study, pd.concat(frames), pd.DataFrame(events), records).only(methods)


def parent(study: Study, method: str) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """The method that an ablation differs least from; the settings that differ: (there, here)."""
    own = _settings(study, method)
    found = {}
    for name, other in study.methods.items():
        if not other.on_demand and other.kind == "rl":
            theirs = _settings(study, name)
            keys = sorted(own.keys() | theirs.keys())
            found[name] = {
                key: (theirs.get(key), own.get(key))
                for key in keys
                if theirs.get(key) != own.get(key)
            }
    name = min(found, key=lambda name: len(found[name]))
    return name, found[name]


def _settings(study: Study, method: str) -> dict[str, Any]:
    """What a method samples and learns from, by dotted name."""
    flat: dict[str, Any] = {}

    def add(prefix: str, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, dict):
                add(f"{prefix}{key}.", value)
            else:
                flat[f"{prefix}{key}"] = value

    entry = study.to_dict()["methods"][method]
    entry["rl"] = dataclasses.asdict(study.rl_of(study.method(method)))
    add("", {key: value for key, value in entry.items() if key not in ("title", "role", "runs")})
    return flat
