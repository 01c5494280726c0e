"""Consultations as MLflow traces: a span per turn, with the patient and the scorer inside it.

A trace's time is that of its update, or of the evaluation's end. Nobody measured when its turns
happened: they follow each other by a microsecond, in their order.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pcqc.tracking import search_tree
from pcqc.tracking.finished import FinishedRun, moment
from pcqc.tracking.reading import evenly, table, why

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

RUN_ID = "mlflow_run"  # attribute of every span: the run that it belongs to
TICK = 1000  # nanoseconds


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
    """The consultations to show, as (where from, row).

    Those of training are evenly spaced over the updates, and are those that say what was compared,
    where there are any; as many again are of the development benchmark.
    """
    count, benchmark = run.study.tracking.consultations_as_traces, run.study.development
    found = run.rows("training/consultations.jsonl")
    drawn = {(row["update"], row["case_id"]) for row in (*run.groups, *run.trees)}
    compared = [row for row in found if (row["update"], row["case_id"]) in drawn]
    trained = evenly(compared or found, count)
    evaluated = evenly(run.rows(f"evaluation/{benchmark}.jsonl"), count)
    return [
        *((f"update {row['update']}", row) for row in trained),
        *((benchmark, row) for row in evaluated),
    ]


def steps(run: FinishedRun, row: dict) -> Step:
    """One consultation as a tree: the consultation, its turns, and the roles in each."""
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
        credit = _compared(run, row, number, history) or _searched(run, row, number)
        root.steps.append(_turn(number, turn, list(history), credit))
        if turn["action"] == "question":
            history.append({"question": turn["question"], "answer": turn["answer"]})
    return root


@dataclass
class Credit:
    """Credit of a turn, the reason in words, and the step that shows what it was compared with."""

    value: float
    reason: str
    step: Step


def _compared(run: FinishedRun, row: dict, number: int, history: list[dict]) -> Credit | None:
    """Credit of a question that was compared with other candidates at its state."""
    turn, method = row["turns"][number - 1], run.study.method(run.method)
    for group in run.groups:
        at = (group["update"], group["case_id"]) == (row.get("update"), row["case_id"])
        if at and _said(group["history"]) == _said(history):
            for candidate in group["candidates"]:
                # The group may be of another consultation that came to the same state.
                if candidate["executed"] and candidate["response"] == turn["response"]:
                    reason = why(group, candidate, method)
                    return Credit(candidate["credit"], reason, _scorer(group, reason))
    return None


def _searched(run: FinishedRun, row: dict, number: int) -> Credit | None:
    """Credit of a turn on a searched tree."""
    tree_settings = run.study.method(run.method).tree
    for tree in run.trees if tree_settings else ():
        if (tree["update"], tree["case_id"]) == (row.get("update"), row["case_id"]):
            nodes, said = tree["nodes"], [turn["response"] for turn in row["turns"][:number]]
            if taken := search_tree.reached(nodes, said):
                reason = search_tree.why(nodes, taken, tree_settings.divide_by_visits)
                shown = {"why this credit": reason, "branches": search_tree.table(nodes, taken)}
                step = Step("critic", "EVALUATOR", {"state": f"turn {number}"}, shown)
                return Credit(nodes[taken]["advantage"], reason, step)
    return None


def _said(history: list[dict]) -> tuple:
    """A dialogue state as a key, unique among the states of one case and update."""
    return tuple((turn["question"], turn["answer"]) for turn in history)


def _verdict(row: dict) -> str:
    said = f"answered {row['predicted']}" if row["predicted"] else "gave no answer"
    return f"The actor {said}; the correct option is {row['answer']} ({row['ending']})."


def _turn(number: int, turn: dict, history: list[dict], credit: Credit | None) -> Step:
    said = {"question": "question", "none": "neither question nor answer"}
    kind = said.get(turn["action"], "final answer")
    step = Step(
        name=f"turn {number}: {kind}",
        kind="CHAIN",
        inputs={"dialogue so far": history or "nothing asked yet"},
        outputs={"actor": turn["response"]},
    )
    if turn["action"] == "question":
        asked, answered = {"question": turn["question"]}, {"answer": turn["answer"]}
        step.steps.append(Step("patient", "TOOL", asked, answered))
    if credit:
        step.steps.append(credit.step)
        step.name += f", credit {credit.value:+.2f}"
        step.judgement = (f"{kind} credit", round(credit.value, 4), credit.reason)
    return step


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
    events = run.rows("training/events.jsonl")
    times = {event["update"]: moment(event["time"]) for event in events if "time" in event}
    with _as_default(client.tracking_uri):
        written = {}
        for where, row in sample(run):
            root, when = steps(run, row), times.get(row.get("update"), run.ended)
            writer = _Writer(client, run_id, experiment_id, 1_000_000 * when)
            trace_id, count = writer.write(run, where, root)
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
    """Writes the steps of one consultation as one trace.

    Args:
        clock: nanoseconds since 1970 at its start.
    """

    def __init__(self, client: "MlflowClient", run_id: str, experiment_id: str, clock: int):
        self.client, self.clock = client, clock
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
            self._tick(),
            run_id=self.run_id,
        )
        self._judge(span, root)
        count = 1 + self._children(span, root)
        self.client.end_trace(span.trace_id, root.outputs, end_time_ns=self._tick())
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
                self._tick(),
            )
            self._judge(span, child)
            count += 1 + self._children(span, child)
            self.client.end_span(
                parent.trace_id, span.span_id, child.outputs, end_time_ns=self._tick()
            )
        return count

    def _tick(self) -> int:
        self.clock += TICK
        return self.clock

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
