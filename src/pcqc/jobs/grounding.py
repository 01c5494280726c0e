"""Eligible answers of a continuation study: the judges' agreement, then a person's review."""

from collections.abc import Callable, Mapping, Sequence

from pcqc.determinism import single_threaded
from pcqc.evaluation.choice import EARLY
from pcqc.evaluation.grounding import (
    COLUMNS,
    CRITERIA,
    NO,
    YES,
    Answered,
    Judgement,
    ModelJudge,
    agreed,
    priority,
    read_review,
    reviewed,
)
from pcqc.evaluation.predictions import read_table
from pcqc.jobs.continuation import CANDIDATES
from pcqc.jobs.instruction import chat_format
from pcqc.jobs.make_roles import (
    checked_cases,
    make_answering,
    make_engine,
    weights_of,
)
from pcqc_base.system.files import csv_text, no_formula, write_atomic
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task

Key = tuple[str, int]  # case id and candidate
Votes = dict[str, list[Judgement]]  # judge -> what it says of every answer


def run(task: Task, judge: Callable[[Task, Sequence[Answered]], Votes] | None = None) -> None:
    """Write `grounding.csv` of one policy's candidates, and the sheet for a person's review.

    Args:
        task: settings, candidates and cases.
        judge: gives every judge's judgements on the answers; by default models do.
    """
    by_id = {c.case_id: c for c in checked_cases(task.inputs["development"])}
    rows = read_table(checked(task.inputs["candidates"]), CANDIDATES).to_pylist()
    rows = [row for row in rows if row["set"] != EARLY]  # so that case and number name a candidate
    items = [Answered(by_id[r["case_id"]], r["question"], r["answer"]) for r in rows]
    votes = (judge or model_votes)(task, items)
    keys = [(row["case_id"], row["candidate"]) for row in rows]
    judged = dict(zip(keys, agreed(votes), strict=True))
    decided: dict[Key, dict[str, bool]] = {}
    if "review" in task.inputs:
        decided = read_review(task.inputs["review"], *task.arguments)
    lines = (
        [*key, *(_word(getattr(final, name)) for name in (*CRITERIA, "eligible")), final.judge]
        for key, final in reviewed(judged, decided).items()
    )
    sheet = _sheet(task.arguments, rows, items, votes, list(judged.values()), decided)
    write_atomic(task.folder / "grounding.csv", csv_text(COLUMNS, lines))
    write_atomic(task.folder / "review.csv", sheet)


def _sheet(
    policy: tuple[str, ...],
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
        of_judges = [_vote(judgements[i]) for judgements in votes.values()]
        verdicts = [_word(decided.get(key, {}).get(name)) for name in CRITERIA]
        place = priority(judged[i], chosen)
        shown = no_formula(item.case.case_id), row["candidate"], place
        lines.append([*policy, *shown, *map(no_formula, texts), *of_judges, *verdicts])
    lines.sort(key=lambda line: line[4])
    head = ("method", "run", "case_id", "candidate", "priority", "facts", "options", "question")
    return csv_text([*head, "answer", *(f"vote of {name}" for name in votes), *CRITERIA], lines)


def _vote(judgement: Judgement) -> str:
    return ", ".join(f"{name} {_word(getattr(judgement, name)) or '?'}" for name in CRITERIA)


def _word(value: bool | None) -> str:
    return "" if value is None else YES if value else NO


def model_votes(task: Task, items: Sequence[Answered]) -> Votes:
    """Every judge's judgements; models are loaded one after another.

    They are the study's judges or, where it names none, the scorer's model.
    """
    single_threaded(task.settings.deterministic)
    if not task.settings.judges:
        return {"model": ModelJudge(*make_answering(task, "scorer")).judge(items)}
    votes = {}
    for name, judge in task.settings.judges.items():
        folder = task.inputs[f"judge_{name}"]
        weights = weights_of(folder, judge.weights.dtype or task.settings.engine.dtype)
        engine = make_engine(task, "scorer", weights, server=judge.server)
        votes[name] = ModelJudge(engine, chat_format(task, folder), name).judge(items)
    return votes
