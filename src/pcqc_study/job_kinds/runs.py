"""Jobs that make and use models: base models, SFT, a run's training and what is done with it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pcqc_base.errors import UserError
from pcqc_study.job_kinds.register import RUN, Given, Settings, kind, of

if TYPE_CHECKING:
    from pcqc_study.graph import Jobs
    from pcqc_study.study_file import Study

LOST_POINTS_CASES = 100  # the first of the development benchmark; each is played in eight ways


@kind("put the base model in place", "models/base", "pcqc.jobs.install_models", large="models")
def base(jobs: "Jobs") -> Given:
    study = jobs.study
    if study.models:
        return Settings(pretrained=study.pretrained), {}
    settings = Settings(
        **of(study, "scratch_model", "protocol"),
        tokens_per_micro_batch=study.rl.tokens_per_micro_batch,
    )
    return settings, jobs.world() | jobs.instruction()


@kind("fine-tune actor and patient", "models/sft", "pcqc.jobs.sft", shared_out=True, threads=2)
def sft(jobs: "Jobs") -> Given:
    study = jobs.study
    settings = Settings(
        **of(study, "sft", "protocol", "engine", "deterministic"),
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


@kind("train {method}, run {run}", "runs", "pcqc.jobs.train", *RUN, shared_out=True, large="models")
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


@kind("choose the checkpoint of {method}, run {run}", "selection", "pcqc.jobs.select", *RUN)
def select(jobs: "Jobs", method: str, run: str) -> Given:
    settings = Settings(development=jobs.study.development, trained=jobs.is_trained(method))
    return settings, jobs.trained(method, run)


@kind(
    "evaluate {method}, run {run}",
    "evaluation",
    "pcqc.jobs.evaluate",
    *RUN,
    shared_out=True,
    large="models",
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
    large="models",
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
    large="models",
)
def grounding(jobs: "Jobs", method: str, run: str) -> Given:
    study, wanted = jobs.study, jobs.study.continuation
    settings = Settings(
        **of(study, "protocol", "engine", "deterministic", "synthetic"),
        dtypes={"scorer": study.dtype("scorer")},
        judges=wanted.judges if wanted else {},
        **({} if study.synthetic or (wanted and wanted.judges) else chats(study, "scorer")),
    )
    judges = {f"judge_{name}": jobs.job("base") / f"judge_{name}" for name in settings.judges}
    review = {"review": Path(wanted.review)} if wanted and wanted.review else {}
    inputs = {
        "candidates": jobs.job("continuation", method, run) / "candidates.parquet",
        "development": jobs.cases(study.development),
        **(jobs.world() or judges or jobs.scorer()),
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
    large="models",
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


def rollouts(study: "Study") -> dict[str, Any]:
    """What consultations are held with; `dtypes`: role -> number format of its weights."""
    names = ("protocol", "actor_decoding", "patient_decoding", "engine", "deterministic")
    dtypes = {role: study.dtype(role) for role in ("actor", "patient", "scorer")}
    return {**of(study, *names), "dtypes": dtypes, **chats(study, "patient", "scorer")}


def chats(study: "Study", *roles: str) -> dict[str, Any]:
    """What decides of servers of chat completions, whose models no fingerprint of a result names.

    Args:
        study: settings.
        roles: that a job has. Where none has such a server, nothing is added.
    """
    deciding = {
        role: Settings(
            model=server.model,
            hosts=sorted({urlsplit(url).hostname or "" for url in server.urls}),
            asks=server.asks,
            body=server.body,
        )
        for role, server in study.servers.chats.items()
        if role in roles
    }
    return {"chats": deciding} if deciding else {}
