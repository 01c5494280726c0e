"""A selected checkpoint with its card, in a Hugging Face repository."""

import os
from pathlib import Path

from pcqc_base.errors import UserError, one_line, reason
from pcqc_base.system.manifest import checked
from pcqc_study.fingerprint import Fingerprint
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.mlflow_mirror.notes import SYNTHETIC, clause, plain
from pcqc_study.mlflow_mirror.open_store import masked
from pcqc_study.runs import load
from pcqc_study.study_file import Study

TEXT = """---
{header}
---

# {title}, of {study}

A doctor that asks before it answers, trained with PCQC (privileged counterfactual question credit
for multi-turn medical dialogue): {clause}. **For research on training methods; not for medical
use.**
{synthetic}
| benchmark | accuracy | questions asked |
|---|---:|---:|
{rows}

The checkpoint is that of update {update}, chosen on {development} alone. Method `{method}`, run
`{run}`, seed {seed}; commit `{commit}`, fingerprint `{fingerprint}`.

    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("{repository}")
    tokenizer = AutoTokenizer.from_pretrained("{repository}")
"""


def push(study: Study, method: str, run: str, repository: str, public: bool = False) -> str:
    """Put a run's selected checkpoint and its card in a repository; the address of the commit.

    Files that are there already, unchanged, are not sent again.

    Args:
        study, method, run: which run.
        repository: such as `me/pcqc-clinic`; made where it is missing.
        public: whether a repository that is made is seen by everybody.

    Raises:
        UserError: the run is not finished, its weights are not here or were altered, the
            environment has no token, or the hub refuses or does not answer.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise UserError("HF_TOKEN is not set; give it a token that may write to the repository")
    folders = load(study.results, method, run).folders
    finished = FinishedRun(study.results, method, run, folders, study)
    if not (weights := finished.weights).is_dir():
        job = f"train {study.name} {method} {run}" if finished.training else f"sft {study.name}"
        raise UserError(f"{finished}: its weights are not here; `pcqc {job}` makes them again")
    from huggingface_hub import CommitOperationAdd, HfApi

    files: dict[str, Path | bytes] = {
        path.relative_to(weights).as_posix(): path
        for path in sorted(checked(weights).rglob("*"))
        if path.is_file()
    }
    files["README.md"] = card(finished, repository).encode()
    additions = [CommitOperationAdd(name, content) for name, content in files.items()]
    try:
        hub = HfApi(token=token)
        hub.create_repo(repository, private=not public, exist_ok=True)
        commit = hub.create_commit(repository, additions, commit_message=finished.title)
    except Exception as problem:  # of the hub's library, of its HTTP client, or of the disk
        words = masked(one_line(reason(problem))).replace(token, "***")
        raise UserError(
            f"{repository} was not pushed: {words}; check name, token and network, then push again"
        ) from problem
    return commit.commit_url


def card(run: FinishedRun, repository: str) -> str:
    """The card of a run's selected checkpoint, in Markdown with the header that the hub reads."""
    from huggingface_hub import ModelCardData

    study, method = run.study, run.study.method(run.method)
    published = study.models and study.models.actor.revision
    header = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["pcqc", "reinforcement-learning"],
        base_model=study.models.actor.source if published else None,
        license=None if published else "apache-2.0",
    )
    rows = [
        f"| {plain(study.benchmarks[name].title)} | {100 * result['accuracy']:.1f} % "
        f"| {result['turns']:.1f} |"
        for name, result in run.evaluation["benchmarks"].items()
        if name in study.benchmarks
    ]
    return TEXT.format(
        header=header.to_yaml(),
        title=plain(run.title),
        study=plain(study.title),
        clause=clause(study, method),
        synthetic=SYNTHETIC if study.synthetic else "",
        rows="\n".join(rows),
        update=run.evaluation["update"],
        development=plain(study.benchmarks[study.development].title),
        method=run.method,
        run=run.run,
        seed=study.seed(run.run),
        commit=run.evaluation["git_commit"],
        fingerprint=Fingerprint.of(run.evaluation).short,
        repository=repository,
    )
