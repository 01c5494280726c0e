"""What each job of a study is told and reads: a function for each kind of job.

Each returns the job's settings, name by name, and its inputs: name -> result or part of one, or a
raw file. Settings of the study are called as they are there.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Settings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pcqc.errors import UserError, nearest
from pcqc.system.checkout import ROOT
from pcqc_study.settings.load import tracking_uri
from pcqc_study.settings.study import START, Study

if TYPE_CHECKING:
    from pcqc_study.graph import Jobs

Given = tuple[Settings, dict[str, Any]]

STORES_LOST = "tracking/stores_lost.txt"  # below the study's results
LOST_POINTS = "lost points"  # what the report's job calls their table
LOST_POINTS_CASES = 100  # the first of the development benchmark; each is played in eight ways
TEMPLATES = (".html", ".css", ".js")


def clinic(jobs: "Jobs") -> Given:
    return Settings(**_of(jobs.study, "clinic", "benchmarks", "protocol")), {}


def convert(jobs: "Jobs", name: str) -> Given:
    files = jobs.study.raw_files
    if name not in files:
        raise UserError(f"study '{jobs.study.name}' has no file '{name}'{nearest(name, files)}")
    return Settings(format=files[name].format), {"raw": files[name].path}


def overlap(jobs: "Jobs") -> Given:
    names, benchmarks = list(jobs.study.raw_files), jobs.study.benchmarks
    settings = Settings(
        training=tuple(name for name in names if name not in benchmarks),
        evaluation=tuple(name for name in names if name in benchmarks),
    )
    return settings, {name: jobs.job("convert", name) / f"{name}.jsonl" for name in names}


def instruction(jobs: "Jobs") -> Given:
    study = jobs.study
    names = [n for n in study.raw_files if n not in study.benchmarks or n == study.development]
    training = tuple(name for name in study.raw_files if name.startswith("train"))
    settings = Settings(training=training, development=study.development)
    return settings, {name: jobs.job("convert", name) / f"{name}.card.json" for name in names}


def prepare(jobs: "Jobs", name: str) -> Given:
    """Cases of a benchmark; for `train` the training cases and the SFT conversations."""
    study, training = jobs.study, name == "train"
    if not training and name not in study.benchmarks:
        known = ["train", *study.benchmarks]
        raise UserError(f"study '{study.name}' has no set '{name}'{nearest(name, known)}")
    taught = [n for n in study.raw_files if n not in study.benchmarks]
    expected = study.data.training_cases if training else study.benchmarks[name].cases
    names = taught if training else [name]
    inputs = {n: jobs.job("convert", n) / f"{n}.jsonl" for n in names}
    cards = {n: jobs.job("convert", n) / f"{n}.card.json" for n in names if n != "sft"}
    inputs |= {f"card {n}": card for n, card in cards.items()}
    inputs |= {f"tokenizer {role}": jobs.base_model(role) for role in ("actor", "patient")}
    inputs |= jobs.instruction()
    return Settings(name=name, protocol=study.protocol, data=study.data, expected=expected), inputs


def base(jobs: "Jobs") -> Given:
    study = jobs.study
    if study.models:
        return Settings(pretrained=study.pretrained), {}
    settings = Settings(
        **_of(study, "clinic", "scratch_model", "protocol"),
        tokens_per_micro_batch=study.rl.tokens_per_micro_batch,
    )
    return settings, jobs.world()


def sft(jobs: "Jobs") -> Given:
    study = jobs.study
    settings = Settings(
        **_of(study, "sft", "protocol", "engine", "deterministic"),
        dtypes={role: study.dtype(role) for role in ("actor", "patient")},
        tokens_per_micro_batch=study.rl.tokens_per_micro_batch,
    )
    inputs = {
        "actor": jobs.base_model("actor"),
        "patient": jobs.base_model("patient"),
        "conversations": jobs.cases("sft"),
        **jobs.instruction(),
    }
    return settings, inputs


def train(jobs: "Jobs", method: str, run: str) -> Given:
    study = jobs.study
    if not jobs.is_trained(method):
        raise UserError(f"'{method}' has no reinforcement learning; evaluate it as it is")
    entry = study.method(method)
    settings = Settings(
        **rollouts(study),
        rl=study.rl_of(entry),
        method=replace(entry, title="-", role="method", runs=(), rl={}),
        seed=study.seed(run),
        evaluation_seed=study.evaluation_seed,
        development={study.development: study.benchmarks[study.development]},
    )
    inputs = {
        "train": jobs.cases("train"),
        "development": jobs.cases(study.development),
        **jobs.models(),
        **jobs.world(),
    }
    return settings, inputs


def select(jobs: "Jobs", method: str, run: str) -> Given:
    settings = Settings(development=jobs.study.development, trained=jobs.is_trained(method))
    return settings, jobs.trained(method, run)


def evaluate(jobs: "Jobs", method: str, run: str) -> Given:
    study = jobs.study
    settings = Settings(
        **rollouts(study),
        evaluation_seed=study.evaluation_seed,
        benchmarks=tuple(study.benchmarks),
        also_evaluate=tuple(study.also_evaluate.get(method, ())),
    )
    cases = {f"cases {name}": jobs.cases(name) for name in study.benchmarks}
    return settings, {**jobs.chosen(method, run), **cases}


def continuation(jobs: "Jobs", method: str, run: str) -> Given:
    study, wanted = jobs.study, jobs.study.continuation
    if wanted is None:
        raise UserError(f"study '{study.name}' has no settings 'continuation'; add the group")
    names = ("states", "candidates", "continuations", "seed")
    main = (method, run) == (wanted.method, wanted.run)  # a reference has one set of states
    settings = Settings(
        **rollouts(study),
        development=study.development,
        **{name: getattr(wanted, name) for name in names},
        early=wanted.early if main else None,
        ungrounded=wanted.ungrounded if main else None,
    )
    inputs = {**jobs.chosen(method, run), "development": jobs.cases(study.development)}
    return settings, inputs | (jobs.world() if settings.ungrounded else {})


def grounding(jobs: "Jobs", method: str, run: str) -> Given:
    study, wanted = jobs.study, jobs.study.continuation
    settings = Settings(
        **_of(study, "protocol", "engine", "deterministic", "synthetic"),
        dtypes={"scorer": study.dtype("scorer")},
        judges=wanted.judges if wanted else {},
    )
    judges = {f"judge_{name}": jobs.job("base") / f"judge_{name}" for name in settings.judges}
    review = {"review": Path(wanted.review)} if wanted and wanted.review else {}
    inputs = {
        "candidates": jobs.job("continuation", method, run) / "candidates.parquet",
        "development": jobs.cases(study.development),
        **(jobs.world() or judges or {"scorer": jobs.base_model("scorer")}),
        **review,
        **jobs.instruction(),
    }
    return settings, inputs


def lost_points(jobs: "Jobs", method: str, run: str) -> Given:
    study = jobs.study
    settings = Settings(
        **rollouts(study),
        evaluation_seed=study.evaluation_seed,
        development=study.development,
        benchmark=study.benchmarks[study.development],
        cases=LOST_POINTS_CASES,
        course=run == study.methods[method].runs[0],  # at every checkpoint; else at the last alone
    )
    roles = {name: part for name, part in jobs.models().items() if name != "scorer"}
    inputs = {"development": jobs.cases(study.development), **roles, **jobs.world()}
    return settings, inputs | jobs.trained(method, run)


def lost_points_table(jobs: "Jobs") -> Given:
    """The table of lost points; it shows replicates too where theirs is made."""
    from pcqc_study.settings.replicates import replicates

    inputs = {" ".join(job.arguments): job for job in jobs.lost_points()}
    for other in replicates(jobs.study):
        job = type(jobs)(other).job("lost_points_table")
        if job.manifest.exists():
            inputs[f"replicate {other.name}"] = job
    return Settings(study=jobs.study.to_dict()), inputs


def mirror(jobs: "Jobs", method: str) -> Given:
    study, entry = jobs.study, jobs.study.method(method)
    if not entry.runs:
        raise UserError(
            f"{method} has no runs in study '{study.name}'; name a method that has some"
        )
    settings = _store(study, entry.title)
    inputs = {f"{job.kind} {run}": job for run in entry.runs for job in jobs.run(method, run)}
    return settings, inputs


def collect(jobs: "Jobs") -> Given:
    return Settings(), {name: jobs.job("mirror", name) for name in jobs.methods}


def report(jobs: "Jobs") -> Given:
    """Tables, figures, report, transcripts and paper, in one folder."""
    from pcqc_study.settings.replicates import replicates

    study = jobs.study
    inputs: dict[str, Any] = {"collected": jobs.job("collect")}
    for other in replicates(study):
        inputs[f"collected {other.name}"] = type(jobs)(other).job("collect")
    # Ablations and peers have tables once they are evaluated; a report waits for those alone that
    # the workflow is making.
    for method, run in jobs.runs():
        job = jobs.job("evaluate", method, run)
        made = job.manifest.exists() or method in jobs.wanted
        if study.method(method).on_demand and made:
            inputs[f"evaluate {method} {run}"] = job
    if not study.synthetic:
        inputs |= {f"convert {name}": jobs.job("convert", name) for name in study.raw_files}
        inputs["overlap"] = jobs.job("overlap")
    elif (lost := jobs.job("lost_points_table")).manifest.exists():
        inputs[LOST_POINTS] = lost
    templates = [p for p in (ROOT / "analysis").rglob("*") if p.suffix in TEMPLATES]
    inputs |= {f"template {p.name}": p for p in sorted(templates)}
    return Settings(study=study.to_dict()), inputs


def peers(jobs: "Jobs") -> Given:
    """The table of published credits: it shows what is made, or what the workflow is making."""
    inputs: dict[str, Any] = {}
    for method, run in jobs.runs():
        job = jobs.job("evaluate", method, run)
        coming = "peers" in jobs.wanted or job.manifest.exists()
        if method in (START, *jobs.compared) and coming:
            inputs[f"evaluate {method} {run}"] = job
    return Settings(study=jobs.study.to_dict()), inputs


def publish(jobs: "Jobs") -> Given:
    study = jobs.study
    return _store(study, study.title), {"report": jobs.job("report")}


def _of(study: Study, *names: str) -> dict[str, Any]:
    return {name: getattr(study, name) for name in names}


def rollouts(study: Study) -> dict[str, Any]:
    """What consultations are held with; `dtypes`: role -> number format of its weights."""
    names = ("protocol", "actor_decoding", "patient_decoding", "engine", "deterministic")
    dtypes = {role: study.dtype(role) for role in ("actor", "patient", "scorer")}
    return {**_of(study, *names), "dtypes": dtypes}


def _store(study: Study, title: str) -> Settings:
    """What is written to MLflow under a title, and where, without user, password or query.

    No job reads how often the store was lost: it makes what that store had be written again.
    """
    address = urlsplit(tracking_uri(study))
    host = f"{address.hostname}:{address.port}" if address.hostname else ""
    uri = f"{address.scheme}://{host}{address.path}"
    return Settings(title=title, uri=uri, stores_lost=stores_lost(study))


def stores_lost(study: Study) -> int:
    """How often a local MLflow store with the study's runs was deleted or moved."""
    path = study.results / STORES_LOST
    return int(path.read_text()) if path.exists() else 0
