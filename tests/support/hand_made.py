"""Results of jobs made by hand: files where the jobs would write them, and rows as they write."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pcqc.cases.case import Case
from pcqc.evaluation.benchmark import Evaluation
from pcqc.evaluation.predictions import SCHEMA, write_table
from pcqc_base.system.manifest import MANIFEST, begin, finish, read_manifest, write_manifest
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds import KINDS
from pcqc_study.run_job import run_job
from pcqc_study.study_file import Study


def folder_of(study: Study, kind: str, *arguments: str) -> Path:
    """Folder of a job's result, by today's fingerprint."""
    return Jobs(study).job(kind, *arguments).path


def clinic_file(study: Study, name: str) -> Path:
    """Where a study of the clinic has its world, or a set of cases."""
    if name == "world":
        return folder_of(study, "clinic", "world") / "world.json"
    return Jobs(study).cases(name).path


def finish_clinic(study: Study) -> None:
    """Write the manifests of the clinic's jobs; its world and cases lie in their folders."""
    for job in Jobs(study).shared():
        if KINDS[job.kind].is_data:
            finish_job(study, job.kind, *job.arguments)


def make_cases(study: Study) -> None:
    """Run the jobs that make the cases of a study of the clinic, which has a base model."""
    for job in Jobs(study).shared():
        if job.kind not in ("overlap", "base", "sft"):
            run_job(study, job.kind, *job.arguments)


def finish_all(study: Study) -> None:
    """Write the manifests of all jobs, none of which has one."""
    for job in Jobs(study).all():
        begin(job)
        finish(job, {})


def evaluated(study: Study, method: str, run: str, rows: list[dict], **entries) -> None:
    """Write a run's evaluation: a row, as in `SCHEMA`, for each case of each benchmark.

    Dialogues lie in its folder, or there are none.
    """
    folder, benchmarks = folder_of(study, "evaluate", method, run), {}
    for name in study.benchmarks:
        benchmarks[name] = {"predictions": f"{name}.parquet", "dialogues": f"{name}.jsonl"}
        own = [{**row, "method": method, "run": run} for row in rows if row["benchmark"] == name]
        write_table(folder / f"{name}.parquet", pa.Table.from_pylist(own, SCHEMA))
    finish_job(study, "evaluate", method, run, entries={"benchmarks": benchmarks, **entries})


def finish_job(study: Study, kind: str, *arguments: str, entries: dict | None = None) -> Path:
    """Write the manifest over the files that lie in a job's folder, anew where there is one."""
    job = Jobs(study).job(kind, *arguments)
    (job.path / MANIFEST).unlink(missing_ok=True)
    begin(job)
    finish(job, {})
    if entries:
        write_manifest(job.path, {**read_manifest(job.path), **entries})
    return job.path


def asked(question: str, answer: str) -> dict:
    """A turn with a question and its answer."""
    return _turn(f"Question: {question}", "question", question, answer)


def concluded(label: str, response: str | None = None) -> dict:
    """The turn with the final answer."""
    return _turn(response or f"Final Answer: {label}", "final", None, None)


def _turn(response: str, action: str, question: str | None, answer: str | None) -> dict:
    return {"response": response, "action": action, "question": question, "answer": answer}


def dialogue(case: Case, turns: Sequence[dict], predicted: str, **more) -> dict:
    """A consultation that ended with the answer `predicted`; `more` are further fields."""
    return {
        "case_id": case.case_id,
        "initial": case.initial,
        "question": case.question,
        "options": case.options,
        "turns": list(turns),
        "predicted": predicted,
        "answer": case.answer,
        "correct": predicted == case.answer,
        "ending": "answer",
        "actor_tokens": 6 * len(turns),
        **more,
    }


def evaluation(dialogues: Sequence[dict], **labels) -> Evaluation:
    """An evaluation of these dialogues; `labels` are benchmark, method, run and update."""
    names = ("case_id", "correct", "predicted", "answer", "actor_tokens", "ending")
    predictions = [
        {name: row[name] for name in names} | labels | {"turns": len(row["turns"]) - 1}
        for row in dialogues
    ]
    return Evaluation(predictions, list(dialogues))


def candidate_group(
    turns: Sequence[dict], utilities: Sequence[float], baseline: float, **more
) -> dict:
    """Candidates at a state with their credits; the first was executed."""
    mean, spread = float(np.mean(utilities)), float(np.std(utilities, ddof=1))
    candidates = [
        {
            **{name: turn[name] for name in ("response", "question", "answer")},
            "utility": utility,
            "gain": utility - baseline,
            "credit": (utility - mean) / spread,
            "executed": place == 0,
            "supervised": True,
        }
        for place, (turn, utility) in enumerate(zip(turns, utilities, strict=True))
    ]
    shown = {"baseline": baseline, "spread": spread, "history": [], "candidates": candidates}
    return {**more, **shown}
