"""The jobs of the experiments on credit, beside those of a study (`pcqc.results.graph`)."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credit_lab.map.job import PREDICTIONS
from credit_lab.map.settings import load_map
from pcqc.errors import UserError
from pcqc.results.graph import Jobs
from pcqc.results.recipe import Job
from pcqc.results.tasks import NoSettings, RolloutSettings
from pcqc.study import Study, load_study
from pcqc.study.data import Benchmark
from pcqc.study.study import CreditQuality

RESULTS = Path("results")


@dataclass(frozen=True)
class QualitySettings(RolloutSettings):
    quality: CreditQuality
    development: Mapping[str, Benchmark]  # the development benchmark alone


@dataclass(frozen=True)
class Methods:
    """Settings of the paper's methods, and of the map."""

    methods: Mapping[str, Any]
    settings: Any = None


@dataclass(frozen=True)
class TableSettings:
    policies: tuple[tuple[str, str], ...]
    titles: tuple[str, ...]


def quality(study: Study, method: str, run: str) -> Job:
    """Credits at the states of one policy."""
    if study.credit_quality is None:
        raise UserError(f"study '{study.name}' has no settings 'credit_quality'; add the group")
    jobs = Jobs(study)
    evaluation = jobs.job("evaluate", method, run)
    settings = QualitySettings(
        **{
            f.name: getattr(evaluation.settings, f.name)
            for f in dataclasses.fields(RolloutSettings)
        },
        quality=study.credit_quality,
        development={study.development: study.benchmarks[study.development]},
    )
    inputs = {n: s for n, s in evaluation.inputs.items() if not n.startswith("cases ")}
    inputs |= {
        "development": jobs.cases(study.development),
        "world": jobs.job("clinic") / "world.json",
    }
    folder = study.results / "credit_quality" / method / run
    entries = ("credit_lab.quality.job",)
    return Job("credit_quality", (method, run), folder, settings, entries, inputs)


def quality_table(study: Study) -> Job:
    """Table and figure of all policies."""
    pairs = study.credited
    titles = tuple(study.method(method).title for method, _ in pairs)
    inputs = {f"{method} {run}": quality(study, method, run) for method, run in pairs}
    settings, entries = TableSettings(tuple(pairs), titles), ("credit_lab.quality.results",)
    return Job("credits", (), study.results / "credits", settings, entries, inputs)


def audit() -> Job:
    """The audit reads no study: methods, source, and a clinic of its own."""
    settings = Methods(load_study("paper").to_dict()["methods"])
    return Job("audit", (), RESULTS / "audit", settings, ("credit_lab.audit.table",))


def map_cell(name: str) -> Job:
    """Linear policies trained in one cell of the map."""
    settings = Methods(load_study("paper").to_dict()["methods"], dataclasses.asdict(load_map()))
    folder, entries = RESULTS / "map" / name, ("credit_lab.map.job",)
    return Job("map cell", (name,), folder, settings, entries, {"predictions": PREDICTIONS})


def map_figure(cells: list[str]) -> Job:
    """Table and figure of the map."""
    inputs = {name: map_cell(name) for name in cells}
    folder, entries = RESULTS / "map" / "figure", ("credit_lab.map.results",)
    return Job("map figure", (), folder, NoSettings(), entries, inputs)
