"""Consultations as MLflow traces: a span per turn, with the patient and the scorer inside it.

A trace's times are those of its writing: nobody measured when the turns happened.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pcqc.tracking.finished import FinishedRun
from pcqc.tracking.reading import evenly, table, why

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

RUN_ID = "mlflow_run"  # attribute of every span: the run that it belongs to


@dataclass
class Step:
    """A span before MLflow: who did what with which inputs and outputs."""

    name: str
    kind: str  # MLflow's span type
    inputs: Any = None
    outputs: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    steps: list["Step"] = field(default_factory=list)
    judgement: tuple[str, Any, str] | None = None  # name, value and rationale of an assessment


def sample(run: FinishedRun) -> list[tuple[str, dict]]:
    """The consultations to show, as (where from, row): evenly spaced over the updates.

    They are those with candidate groups, where there are any. A method without training shows
    consultations of its development benchmark.
    """
    count = run.study.tracking.consultations_as_traces
    if rows := run.rows("training/consultations.jsonl"):
        drawn = {(group["update"], group["case_id"]) for group in run.groups}
        with_groups = [row for row in rows if (row["update"], row["case_id"]) in drawn]
        return [(f"update {row['update']}", row) for row in evenly(with_groups or rows, count)]
    benchmark = run.study.development
    rows = run.rows(f"evaluation/{benchmark}.jsonl")
    return [(benchmark, row) for row in evenly(rows, count)]


def steps(run: FinishedRun, row: dict) -> Step:
    """One consultation as a tree: the consultation, its turns, and the roles in each."""
    question_credit = run.study.method(run.method).question_credit
    groups = {
        _said(group["history"]): group
        for group in run.groups
        if (group["update"], group["case_id"]) == (row.get("update"), row["case_id"])
    }
    root = Step(
        name="consultation",
        kind="AGENT",
        inputs={name: row[name] for name in ("initial", "question", "options")},
        outputs={name: row[name] for name in ("predicted", "answer", "correct", "ending")},
        attributes={
            name: row[name]
            for name in ("case_id", "update", "rollout", "reward", "advantage", "actor_tokens")
            if row.get(name) is not None
        },
        judgement=("correct", row["correct"], _verdict(row)),
    )
    history: list[dict] = []
    for number, turn in enumerate(row["turns"], start=1):
        group = groups.get(_said(history))
        root.steps.append(_turn(number, turn, list(history), group, question_credit))
        if turn["action"] == "question":
            history.append({"question": turn["question"], "answer": turn["answer"]})
    return root


def _said(history: list[dict]) -> tuple:
    """A dialogue state as a key, unique among the states of one case and update."""
    return tuple((turn["question"], turn["answer"]) for turn in history)


def _verdict(row: dict) -> str:
    said = f"answered {row['predicted']}" if row["predicted"] else "gave no answer"
    return f"The actor {said}; the correct option is {row['answer']} ({row['ending']})."


def _turn(
    number: int, turn: dict, history: list[dict], group: dict | None, question_credit: str
) -> Step:
    asked = turn["action"] == "question"
    step = Step(
        name=f"turn {number}: {'question' if asked else 'final answer'}",
        kind="CHAIN",
        inputs={"dialogue so far": history}
        if history
        else {"dialogue so far": "nothing asked yet"},
        outputs={"actor": turn["response"]},
    )
    if turn["action"] == "none":
        step.name = f"turn {number}: neither question nor answer"
    if not asked:
        return step
    step.steps.append(
        Step("patient", "TOOL", {"question": turn["question"]}, {"answer": turn["answer"]})
    )
    executed = _executed(group, turn)
    if executed:
        reason = why(group, executed, question_credit)
        step.steps.append(_scorer(group, reason))
        step.name = f"turn {number}: credit {executed['credit']:+.2f}"
        step.judgement = ("question credit", round(executed["credit"], 4), reason)
    return step


def _executed(group: dict | None, turn: dict) -> dict | None:
    """The group's executed candidate, if it is what was said in this very consultation."""
    for candidate in group["candidates"] if group else ():
        if candidate["executed"] and candidate["response"] == turn["response"]:
            return candidate
    return None


def _scorer(group: dict, reason: str) -> Step:
    """The scorer's view of all candidates at the state."""
    return Step(
        name="scorer",
        kind="EVALUATOR",
        inputs={
            "correct option": group["answer_label"],
            "probability of it before the question": round(group["baseline"], 4),
        },
        outputs={
            "why this credit": reason,
            "standard deviation of the utilities": round(group["spread"], 4),
            "candidates": table(group),
        },
    )


def write(run: FinishedRun, run_id: str, client: "MlflowClient", experiment_id: str) -> None:
    """Write the sampled consultations of a run as traces, in the place of what a kill has left.

    Args:
        run_id: the MLflow run to which they belong.

    Raises:
        MlflowException: a trace did not arrive whole.
    """
    from mlflow.exceptions import MlflowException

    # The spans carry the run from the first on; the trace itself only once it has ended.
    mine = f"span.attributes.{RUN_ID} LIKE '%{run_id}%'"
    begun = client.search_traces(locations=[experiment_id], filter_string=mine, include_spans=False)
    if begun:
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in begun])
    with _as_default(client.tracking_uri):
        written = {}
        for where, row in sample(run):
            root = steps(run, row)
            trace_id, count = _Writer(client, run_id, experiment_id).write(run, where, root)
            written[trace_id] = count
    # The client logs an error of this kind and goes on.
    found = client.search_traces(locations=[experiment_id], run_id=run_id, max_results=len(written))
    if written != {trace.info.trace_id: len(trace.data.spans) for trace in found}:
        raise MlflowException(f"run {run_id} has lost traces")


@contextmanager
def _as_default(uri: str) -> Iterator[None]:
    """Traces go to MLflow's default store, which is this one for the time being."""
    import mlflow

    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


class _Writer:
    """Writes the steps of one consultation as one trace."""

    def __init__(self, client: "MlflowClient", run_id: str, experiment_id: str):
        self.client = client
        self.run_id = run_id
        self.experiment_id = experiment_id
        self.judgements: list[tuple[str, tuple[str, Any, str]]] = []

    def write(self, run: FinishedRun, where: str, root: Step) -> tuple[str, int]:
        """Write the consultation; the trace's id and its number of spans."""
        span = self.client.start_trace(
            f"{run.method} {run.run}, {where}",
            root.kind,
            root.inputs,
            self._attributes(root),
            {
                "method": run.method,
                "run": run.run,
                "where": where,
                "case_id": str(root.attributes["case_id"]),
            },
            self.experiment_id,
            run_id=self.run_id,
        )
        self._judge(span, root)
        count = 1 + self._children(span, root)
        self.client.end_trace(span.trace_id, root.outputs)
        self._assess(span.trace_id)
        return span.trace_id, count

    def _children(self, parent: "Span", step: Step) -> int:
        """Write the steps below one, in the order of the dialogue; their number."""
        count = 0
        for child in step.steps:
            span = self.client.start_span(
                child.name,
                parent.trace_id,
                parent.span_id,
                child.kind,
                child.inputs,
                self._attributes(child),
            )
            self._judge(span, child)
            count += 1 + self._children(span, child)
            self.client.end_span(parent.trace_id, span.span_id, child.outputs)
        return count

    def _attributes(self, step: Step) -> dict[str, Any]:
        return {**step.attributes, RUN_ID: self.run_id}

    def _judge(self, span: "Span", step: Step) -> None:
        if step.judgement:
            self.judgements.append((span.span_id, step.judgement))

    def _assess(self, trace_id: str) -> None:
        import mlflow
        from mlflow.entities import AssessmentSource

        for span_id, (name, value, rationale) in self.judgements:
            mlflow.log_feedback(
                trace_id=trace_id,
                name=name,
                value=value,
                rationale=rationale,
                source=AssessmentSource(source_type="CODE", source_id="pcqc"),
                span_id=span_id,
            )
