"""Eligible answers of a continuation study: the judges' agreement, then a person's review."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pcqc.engines.base import Engine
from pcqc.evaluation.grounding import (
    COLUMNS,
    CRITERIA,
    NO,
    YES,
    Answered,
    Judge,
    Judgement,
    ModelJudge,
    agreed,
    priority,
    read_review,
    reviewed,
)
from pcqc.jobs.continuation import CANDIDATES
from pcqc.jobs.setup import Weights, chat_format, make_engine, read_checked_cases, role_weights
from pcqc.study import Servers, Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.predictions import read_table
from pcqc.study.shapes import ContinuationManifest
from pcqc.system.determinism import single_threaded
from pcqc.system.files import csv_text, no_formula, read_json, write_atomic

Key = tuple[str, int]  # case id and candidate


def run_grounding(
    study: Study, method: str, run: str, judges: Mapping[str, Judge] | None = None
) -> None:
    """Write `grounding.csv` of one policy's candidates, and the sheet for a person's review.

    Args:
        study: with the study's candidates on disk.
        method, run: the policy.
        judges: by name; the study's where none are given.
    """
    paths, result = Paths.of(study), job_output(study, "grounding", method, run)
    if result.stands():
        return
    continued = job_output(study, "continuation", method, run)
    continued.require("manifest.json", "candidates.parquet")
    remedy = f"remove {continued.manifest} and run the workflow again"
    benchmark = read_json(continued.manifest, ContinuationManifest, remedy)["benchmark"]
    by_id = {c.case_id: c for c in read_checked_cases(study, paths.cases(benchmark))}
    rows = read_table(continued.path / "candidates.parquet", CANDIDATES).to_pylist()
    items = [Answered(by_id[r["case_id"]], r["question"], r["answer"]) for r in rows]
    votes = _votes(study, judges, items)
    keys = [(row["case_id"], row["candidate"]) for row in rows]
    judged = dict(zip(keys, agreed(votes), strict=True))
    decided: dict[Key, dict[str, bool]] = {}
    if study.continuation and study.continuation.review:
        decided = read_review(Path(study.continuation.review), method, run)
    lines = (
        [*key, *(_word(getattr(said, name)) for name in (*CRITERIA, "eligible")), said.judge]
        for key, said in reviewed(judged, decided).items()
    )
    sheet = _sheet((method, run), rows, items, votes, list(judged.values()), decided)
    result.begin()
    write_atomic(result.path, csv_text(COLUMNS, lines))
    write_atomic(paths.review_sheet(method, run), sheet)
    result.finish([result.path.name])


def _sheet(
    policy: tuple[str, str],
    rows: Sequence[dict],
    items: Sequence[Answered],
    votes: Mapping[str, Sequence[Judgement]],
    judged: Sequence[Judgement],
    decided: Mapping[Key, dict[str, bool]],
) -> str:
    """Answers in order of priority, with votes and empty verdicts; earlier verdicts are kept."""
    best: dict[str, tuple[float, int]] = {}
    for row in rows:
        if row["utility"] > best.get(row["case_id"], (-1.0, 0))[0]:
            best[row["case_id"]] = (row["utility"], row["candidate"])
    lines = []
    for i, (row, item) in enumerate(zip(rows, items, strict=True)):
        key = (row["case_id"], row["candidate"])
        chosen = row["executed"] or best[row["case_id"]][1] == row["candidate"]
        texts = (" | ".join(item.case.facts), str(item.case.options), item.question, item.answer)
        said = [_vote(judgements[i]) for judgements in votes.values()]
        verdicts = [_word(decided.get(key, {}).get(name)) for name in CRITERIA]
        place = priority(judged[i], chosen)
        lines.append([*policy, *key, place, *map(no_formula, texts), *said, *verdicts])
    lines.sort(key=lambda line: line[4])
    head = ("method", "run", "case_id", "candidate", "priority", "facts", "options", "question")
    return csv_text([*head, "answer", *(f"vote of {name}" for name in votes), *CRITERIA], lines)


def _vote(judgement: Judgement) -> str:
    return ", ".join(f"{name} {_word(getattr(judgement, name)) or '?'}" for name in CRITERIA)


def _word(value: bool | None) -> str:
    return "" if value is None else YES if value else NO


def _votes(
    study: Study, judges: Mapping[str, Judge] | None, items: Sequence[Answered]
) -> dict[str, list[Judgement]]:
    """Every judge's judgements; models are loaded one after another."""
    if judges:
        return {name: judge.judge(items) for name, judge in judges.items()}
    single_threaded(study.deterministic)
    settings = study.continuation.judges if study.continuation else {}
    if not settings:
        weights = role_weights(study, "scorer")
        engine = make_engine(study, "scorer", weights)
        return {"model": ModelJudge(engine, chat_format(study, weights.folder)).judge(items)}
    found = {}
    for name in settings:
        engine, folder = _judge_engine(study, name)
        found[name] = ModelJudge(engine, chat_format(study, folder), name).judge(items)
    return found


def _judge_engine(study: Study, name: str) -> tuple[Engine, Path]:
    """The engine of a judge of its own, served or in the scorer's place, and its folder."""
    judge = study.continuation.judges[name]
    folder = Paths.of(study).model(f"judge_{name}")
    if judge.server:
        from pcqc.engines.server import ServerEngine

        engine = ServerEngine(judge.server)
        engine.check_weights(folder)
        return engine, folder
    dtype = judge.weights.dtype or study.engine.dtype
    weights = Weights(folder, dtype, f"remove {folder} and run `pcqc models {study.name}`")
    return make_engine(replace(study, servers=Servers()), "scorer", weights), folder
