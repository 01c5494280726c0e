"""Consultations as MLflow traces: a span per turn, with the patient and the scorer inside it.

The identifiers are digests of the MLflow run and of the row, so that writing a trace twice leaves
one. Nobody measured when the turns happened: the spans' times only put them in order.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pcqc.tracking.finished import FinishedRun
from pcqc.tracking.reading import evenly, table, why

if TYPE_CHECKING:
    from mlflow.entities import Span, TraceInfo

MILLISECOND = 1_000_000  # in nanoseconds


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
    """The consultations to show, as (where from, row): spread evenly over the updates.

    Where candidate groups were drawn, it is along those. A method without training shows
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
    """One consultation as a tree: the consultation, its turns, and in each who was asked what."""
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
    """A dialogue state as a key: all that tells the states of one case and update apart."""
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
            "spread of the utilities": round(group["spread"], 4),
            "candidates": table(group),
        },
    )


def traces(
    run: FinishedRun, run_id: str, experiment_id: str, start_ms: int
) -> list[tuple["TraceInfo", list["Span"]]]:
    """The sampled consultations as MLflow objects, ready to be written.

    Args:
        run_id: the MLflow run to which they belong.
        start_ms: milliseconds since 1970; later updates get later times.
    """
    made = []
    for place, (where, row) in enumerate(sample(run)):
        writer = _Writer(f"{run_id}/{place}", start_ms + place)
        root = steps(run, row)
        writer.write(root, None)
        made.append((writer.info(run, run_id, experiment_id, where, root), writer.spans))
    return made


class _Writer:
    """Numbers and times the steps of one trace, and makes MLflow's objects of them."""

    def __init__(self, key: str, start_ms: int):
        self.key = key
        self.trace_id = f"tr-{_hex(key, 32)}"
        self.start_ms = start_ms
        self.clock = start_ms * MILLISECOND
        self.spans: list[Span] = []
        self.judgements: list[tuple[str, tuple[str, Any, str]]] = []

    def write(self, step: Step, parent: str | None) -> None:
        """Add the span of a step, then its children's, in the order of the dialogue."""
        from mlflow.entities import Span

        span_id = _hex(f"{self.key}/{len(self.judgements)}/{self.clock}", 16)
        self.judgements.append((span_id, step.judgement))
        start = self.clock
        self.clock += MILLISECOND
        for child in step.steps:
            self.write(child, span_id)
        self.clock += MILLISECOND
        attributes = {
            "mlflow.traceRequestId": self.trace_id,
            "mlflow.spanType": step.kind,
            "mlflow.spanInputs": step.inputs,
            "mlflow.spanOutputs": step.outputs,
            **step.attributes,
        }
        span = {
            "trace_id": self.trace_id,
            "span_id": span_id,
            "parent_span_id": parent,
            "name": step.name,
            "start_time_unix_nano": start,
            "end_time_unix_nano": self.clock,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {k: json.dumps(v, ensure_ascii=False) for k, v in attributes.items()},
            "events": [],
        }
        self.spans.append(Span.from_dict(span))

    def info(
        self, run: FinishedRun, run_id: str, experiment_id: str, where: str, root: Step
    ) -> "TraceInfo":
        """The trace's own row: what the list of traces shows."""
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        return TraceInfo(
            trace_id=self.trace_id,
            trace_location=TraceLocation.from_experiment_id(experiment_id),
            request_time=self.start_ms,
            execution_duration=self.clock // MILLISECOND - self.start_ms,
            state=TraceState.OK,
            request_preview=f"{where.capitalize()}: {root.inputs['initial']}",
            response_preview=" | ".join(step.outputs["actor"] for step in root.steps),
            client_request_id=f"{run.method}/{run.run}/{where}",
            trace_metadata={"mlflow.sourceRun": run_id},
            tags={
                "mlflow.traceName": f"{run.method} {run.run}, {where}",
                "method": run.method,
                "run": run.run,
                "where": where,
                "case_id": str(root.attributes["case_id"]),
            },
            assessments=self._assessments(),
        )

    def _assessments(self) -> list:
        from mlflow.entities import AssessmentSource, Feedback

        found = []
        for number, (span_id, judgement) in enumerate(self.judgements):
            if judgement:
                name, value, rationale = judgement
                feedback = Feedback(
                    name=name,
                    value=value,
                    rationale=rationale,
                    source=AssessmentSource(source_type="CODE", source_id="pcqc"),
                    trace_id=self.trace_id,
                    span_id=span_id,
                    create_time_ms=self.start_ms,
                    last_update_time_ms=self.start_ms,
                )
                feedback.assessment_id = f"a-{_hex(f'{self.key}/{number}', 32)}"
                found.append(feedback)
        return found


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
