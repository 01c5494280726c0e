"""The kinds of jobs: a function for each says what its jobs are told and read.

A function gets the study's `Jobs` and the job's arguments. It returns the job's settings, name by
name, and its inputs: name -> result or part of one, or a raw file. Its decorator says the rest. The
command line, the checks of settings and the workflow's rules are made from this table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace as Settings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pcqc_base.errors import UserError, nearest
from pcqc_base.settings import Benchmark
from pcqc_base.system.checkout import ROOT
from pcqc_study.settings.load import tracking_uri
from pcqc_study.settings.study import START, Study

if TYPE_CHECKING:
    from pcqc_study.graph import Jobs

Given = tuple[Settings, dict[str, Any]]

LOST_POINTS = "lost points"  # what the report's job calls their table
LOST_POINTS_CASES = 100  # the first of the development benchmark; each is played in eight ways
TEMPLATES = (".html", ".css", ".js")
WORLD = (
    "diseases",
    "complaints",
    "complaint_odds",
    "noise",
    "seed",
)  # settings of a clinic's world


@dataclass(frozen=True)
class Kind:
    """A kind of job: a command of `pcqc` and a rule of the workflow.

    Attributes:
        name: of the command.
        reads: settings and inputs of one of its jobs.
        sentence: what a job does, with its arguments in braces.
        folder: where its results are, below the study's.
        module: has the function `run` that does it.
        arguments: names of the command's arguments after the study, and of the rule's wildcards.
        rule: name of the rule, where it is not the kind's: that names a target.
        synthetic: whether studies of the clinic alone have it, or those of real cases alone; None:
            every study has it.
        on_models: whether it runs models, and needs a GPU where the study is placed on some.
        shared_out: whether one process for each device of the learner does it together, where the
            study places its learner.
        whole_study: whether `run` is also handed the study, whose newest results it looks up.
        in_store: whether its result is in MLflow's store too, and is made again where that is lost.
    """

    name: str
    reads: Callable[..., Given]
    sentence: str
    folder: str
    module: str
    arguments: tuple[str, ...] = ()
    rule: str = ""
    synthetic: bool | None = None
    on_models: bool = False
    shared_out: bool = False
    whole_study: bool = False
    in_store: bool = False

    @property
    def help(self) -> str:
        """The sentence for the command line, with arguments in capitals."""
        return self.sentence.format(**{name: name.upper() for name in self.arguments})


KINDS: dict[str, Kind] = {}
RUN = ("method", "run")


def kind(sentence: str, folder: str, module: str, *arguments: str, **more: Any) -> Callable:
    """Register a function as what the jobs of the kind of its name are told and read."""

    def register(reads: Callable[..., Given]) -> Callable[..., Given]:
        name = reads.__name__
        KINDS[name] = Kind(name, reads, sentence, folder, module, arguments, **more)
        return reads

    return register


@kind("draw the clinic's {set}", "data/clinic", "pcqc_clinic.jobs.clinic", "set", synthetic=True)
def clinic(jobs: "Jobs", name: str) -> Given:
    """The world, or one set of cases; it shares none with the sets before it."""
    study, names = jobs.study, jobs.drawn()
    if name not in names:
        raise UserError(f"study '{study.name}' has no set '{name}'{nearest(name, names)}")
    settings = Settings(name=name, world=Settings(**_of(study.clinic, *WORLD)))
    if name == "world":
        return settings, {}
    inputs = {before: jobs.job("clinic", before) for before in names[1 : names.index(name)]}
    if name in study.benchmarks:
        settings.benchmark = unlabelled(study.benchmarks[name])
        return settings, inputs
    settings.options = study.clinic.training_options
    if name == "train":
        settings.cases = study.clinic.training_cases
        return settings, inputs
    settings.conversations = study.clinic.sft_conversations
    settings.questions, settings.asks = study.clinic.sft_questions, study.clinic.sft_asks
    settings.instruction = study.protocol.instruction
    return settings, inputs


@kind(
    "convert {file}, a published file, to cases",
    "data/converted",
    "data_prep.convert",
    "file",
    synthetic=False,
)
def convert(jobs: "Jobs", name: str) -> Given:
    files = jobs.study.raw_files
    if name not in files:
        raise UserError(f"study '{jobs.study.name}' has no file '{name}'{nearest(name, files)}")
    return Settings(format=files[name].format), {"raw": files[name].path}


@kind(
    "audit the overlap of training and evaluation",
    "data/overlap",
    "data_prep.overlap_audit",
    synthetic=False,
)
def overlap(jobs: "Jobs") -> Given:
    names, benchmarks = list(jobs.study.raw_files), jobs.study.benchmarks
    settings = Settings(
        training=tuple(name for name in names if name not in benchmarks),
        evaluation=tuple(name for name in names if name in benchmarks),
    )
    return settings, {name: jobs.job("convert", name) / f"{name}.jsonl" for name in names}


@kind(
    "take the actor's system message from the published cases",
    "data/instruction",
    "data_prep.instruction",
    synthetic=False,
)
def instruction(jobs: "Jobs") -> Given:
    study = jobs.study
    names = [n for n in study.raw_files if n not in study.benchmarks or n == study.development]
    training = tuple(name for name in study.raw_files if name.startswith("train"))
    settings = Settings(training=training, development=study.development)
    return settings, {name: jobs.job("convert", name) / f"{name}.card.json" for name in names}


@kind("select the cases of {set}", "data", "data_prep.prepare", "set", synthetic=False)
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


@kind(
    "put the base model in place",
    "models/base",
    "pcqc.jobs.install_models",
)
def base(jobs: "Jobs") -> Given:
    study = jobs.study
    if study.models:
        return Settings(pretrained=study.pretrained), {}
    settings = Settings(
        **_of(study, "scratch_model", "protocol"),
        tokens_per_micro_batch=study.rl.tokens_per_micro_batch,
    )
    return settings, jobs.world()


@kind(
    "fine-tune actor and patient",
    "models/sft",
    "pcqc.jobs.sft",
    shared_out=True,
)
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


@kind(
    "train {method}, run {run}",
    "runs",
    "pcqc.jobs.train",
    *RUN,
    shared_out=True,
)
def train(jobs: "Jobs", method: str, run: str) -> Given:
    study = jobs.study
    if not jobs.is_trained(method):
        raise UserError(f"'{method}' has no reinforcement learning; evaluate it as it is")
    entry = study.method(method)
    settings = Settings(
        **rollouts(study),
        rl=study.rl_of(entry),
        method=replace(entry, title="-", role="method", runs=("A", "B", "C"), rl={}),
        seed=study.seed(run),
        evaluation_seed=study.evaluation_seed,
        development=study.development,
        base_rates=study.benchmarks[study.development].base_rates if study.synthetic else None,
    )
    inputs = {
        "train": jobs.cases("train"),
        "development": jobs.cases(study.development),
        **jobs.models(),
        **jobs.world(),
    }
    return settings, inputs


@kind(
    "choose the checkpoint of {method}, run {run}",
    "selection",
    "pcqc.jobs.select",
    *RUN,
)
def select(jobs: "Jobs", method: str, run: str) -> Given:
    settings = Settings(development=jobs.study.development, trained=jobs.is_trained(method))
    return settings, jobs.trained(method, run)


@kind(
    "evaluate {method}, run {run}",
    "evaluation",
    "pcqc.jobs.evaluate",
    *RUN,
    shared_out=True,
)
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


@kind(
    "continue from the candidates of {method}, run {run}",
    "continuation",
    "pcqc.jobs.continuation",
    *RUN,
    rule="continue_candidates",
    shared_out=True,
)
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


@kind(
    "judge the answers of {method}, run {run}",
    "grounding",
    "pcqc.jobs.grounding",
    *RUN,
    rule="ground_answers",
    on_models=True,
)
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


@kind(
    "split what {method}, run {run}, loses by place",
    "lost_points",
    "pcqc_clinic.jobs.lost_points",
    *RUN,
    rule="lost_points_of_a_run",
    synthetic=True,
    on_models=True,
)
def lost_points(jobs: "Jobs", method: str, run: str) -> Given:
    study = jobs.study
    settings = Settings(
        **rollouts(study),
        evaluation_seed=study.evaluation_seed,
        development=study.development,
        base_rates=study.benchmarks[study.development].base_rates,
        cases=LOST_POINTS_CASES,
        course=run == study.methods[method].runs[0],  # at every checkpoint; else at the last alone
    )
    roles = {name: part for name, part in jobs.models().items() if name != "scorer"}
    inputs = {"development": jobs.cases(study.development), **roles, **jobs.world()}
    return settings, inputs | jobs.trained(method, run)


@kind(
    "write the table and the figure of lost points",
    "lost_points_table",
    "analysis.lost_points",
    synthetic=True,
    whole_study=True,
)
def lost_points_table(jobs: "Jobs") -> Given:
    """The table of lost points; it shows replicates too where theirs is made."""
    from pcqc_study.settings.replicates import replicates

    inputs = {" ".join(job.arguments): job for job in jobs.lost_points()}
    for other in replicates(jobs.study):
        job = type(jobs)(other).job("lost_points_table")
        if job.manifest.exists():
            inputs[f"replicate {other.name}"] = job
    return Settings(study=jobs.study.to_dict()), inputs


@kind(
    "mirror {method} in MLflow",
    "tracking",
    "pcqc_study.mlflow_mirror.write_runs",
    "method",
    whole_study=True,
    in_store=True,
)
def mirror(jobs: "Jobs", method: str) -> Given:
    study, entry = jobs.study, jobs.study.method(method)
    if not entry.runs:
        raise UserError(
            f"{method} has no runs in study '{study.name}'; name a method that has some"
        )
    settings = _store(study, entry.title)
    inputs = {f"{job.kind} {run}": job for run in entry.runs for job in jobs.run(method, run)}
    return settings, inputs


@kind(
    "collect all runs from MLflow",
    "collected",
    "pcqc_study.mlflow_mirror.collect",
    whole_study=True,
    in_store=True,
)
def collect(jobs: "Jobs") -> Given:
    return Settings(), {name: jobs.job("mirror", name) for name in jobs.methods}


@kind(
    "write tables, figures, transcripts and report",
    "report",
    "analysis.report",
    whole_study=True,
)
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


@kind(
    "write the table of other credit rules",
    "peers",
    "analysis.tables.peers",
    rule="peers_table",
    whole_study=True,
)
def peers(jobs: "Jobs") -> Given:
    """The table of published credits: it shows what is made, or what the workflow is making."""
    inputs: dict[str, Any] = {}
    for method, run in jobs.runs():
        job = jobs.job("evaluate", method, run)
        coming = "peers" in jobs.wanted or job.manifest.exists()
        if method in (START, *jobs.compared) and coming:
            inputs[f"evaluate {method} {run}"] = job
    return Settings(study=jobs.study.to_dict()), inputs


@kind(
    "publish the report in MLflow",
    "published",
    "pcqc_study.mlflow_mirror.write_report",
    whole_study=True,
    in_store=True,
)
def publish(jobs: "Jobs") -> Given:
    study = jobs.study
    return _store(study, study.title), {"report": jobs.job("report")}


def unlabelled(benchmark: Benchmark) -> Benchmark:
    """A benchmark without what tables print of it."""
    return replace(benchmark, title="-", role="held_out")


def _of(settings: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names}


def rollouts(study: Study) -> dict[str, Any]:
    """What consultations are held with; `dtypes`: role -> number format of its weights."""
    names = ("protocol", "actor_decoding", "patient_decoding", "engine", "deterministic")
    dtypes = {role: study.dtype(role) for role in ("actor", "patient", "scorer")}
    return {**_of(study, *names), "dtypes": dtypes}


def _store(study: Study, title: str) -> Settings:
    """What is written to MLflow under a title, and where, without user, password or query."""
    address = urlsplit(tracking_uri(study))
    host = f"{address.hostname}:{address.port}" if address.hostname else ""
    return Settings(title=title, uri=f"{address.scheme}://{host}{address.path}")


# Their results are in MLflow's store too.
IN_STORE = frozenset(name for name, of_name in KINDS.items() if of_name.in_store)
