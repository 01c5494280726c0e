"""Eligible answers of a continuation study: the judge's word, then a person's review."""

from pathlib import Path

import pyarrow.parquet as pq

from pcqc.cases import read_cases
from pcqc.config import Study
from pcqc.evaluation.grounding import (
    COLUMNS,
    CRITERIA,
    NO,
    YES,
    Answered,
    Judge,
    ModelJudge,
    read_review,
    reviewed,
)
from pcqc.files import csv_text, read_json, write_atomic
from pcqc.jobs.setup import chat_format, make_engine, role_weights, single_threaded
from pcqc.paths import Paths


def run_grounding(study: Study, method: str, run: str, judge: Judge | None = None) -> None:
    """Write `grounding.csv` of one policy's candidates.

    Args:
        study: with the study's candidates on disk.
        method, run: the policy.
        judge: knows the study's world; the frozen base model judges where none is given.
    """
    paths = Paths.of(study)
    folder = paths.continuation(method, run)
    benchmark = read_json(folder / "manifest.json")["benchmark"]
    by_id = {case.case_id: case for case in read_cases(paths.cases(benchmark))}
    rows = pq.read_table(folder / "candidates.parquet").to_pylist()
    items = [Answered(by_id[r["case_id"]], r["question"], r["answer"]) for r in rows]
    judgements = (judge or _model_judge(study)).judge(items)
    keys = [(row["case_id"], row["candidate"]) for row in rows]
    found = dict(zip(keys, judgements, strict=True))
    if study.continuation and study.continuation.review:
        found = reviewed(found, read_review(Path(study.continuation.review), method, run))
    lines = (
        [*key, *(_word(getattr(said, name)) for name in (*CRITERIA, "eligible")), said.judge]
        for key, said in found.items()
    )
    write_atomic(folder / "grounding.csv", csv_text(COLUMNS, lines))


def _word(value: bool | None) -> str:
    return "" if value is None else YES if value else NO


def _model_judge(study: Study) -> ModelJudge:
    single_threaded()
    weights = role_weights(study, "scorer")
    return ModelJudge(make_engine(study, "scorer", weights), chat_format(study, weights.folder))
