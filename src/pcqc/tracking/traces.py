"""Consultations as MLflow traces: a span per turn, with the patient and the scorer inside it.

A trace's time is that of its update, or of the evaluation's end. Nobody measured when its turns
happened: they follow each other by a microsecond, in their order.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from pcqc.tracking.finished import FinishedRun, milliseconds

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


def sample(run: FinishedRun) -> list[tuple[str, dict]]:
    """The consultations to show, as (where from, row).

    Those of training are evenly spaced over the updates, and are those whose candidates or tree are
    on file, where there are any; as many again are of the development benchmark.
    """
    number, benchmark = run.study.tracking.consultations_as_traces, run.study.development
    rows = run.rows("training/consultations.jsonl")
    credited = {(row["update"], row["case_id"]) for row in (*run.groups, *run.trees)}
    trained = [row for row in rows if (row["update"], row["case_id"]) in credited] or rows
    return [
        *((f"update {row['update']}", row) for row in evenly(trained, number)),
        *((benchmark, row) for row in evenly(run.rows(f"evaluation/{benchmark}.jsonl"), number)),
    ]


def evenly(rows: Sequence, number: int) -> list:
    """At most `number` of `rows`, evenly spaced, the first and the last among them."""
    if len(rows) <= number:
        return list(rows)
    if number == 1:
        return [rows[0]]
    return [rows[round(i * (len(rows) - 1) / (number - 1))] for i in range(number)]


def consultation(run: FinishedRun, row: dict) -> Step:
    """One consultation as a tree: the consultation, its turns, and the roles in each."""
    shown = ("case_id", "update", "rollout", "reward", "advantage", "actor_tokens")
    root = Step(
        name="consultation",
        kind="AGENT",
        inputs={name: row[name] for name in ("initial", "question", "options")},
        outputs={name: row[name] for name in ("predicted", "answer", "correct", "ending")},
        attributes={name: row[name] for name in shown if row.get(name) is not None},
    )
    kinds = {"question": "question", "none": "neither question nor answer"}
    history: list[dict] = []
    for number, turn in enumerate(row["turns"], start=1):
        kind = kinds.get(turn["action"], "final answer")
        step = Step(
            name=f"turn {number}: {kind}",
            kind="CHAIN",
            inputs={"dialogue so far": list(history) or "nothing asked yet"},
            outputs={"actor": turn["response"]},
        )
        if turn["action"] == "question":
            question, answer = {"question": turn["question"]}, {"answer": turn["answer"]}
            step.steps.append(Step("patient", "TOOL", question, answer))
        if credited := _scorer(run, row, turn, history) or _critic(run, row, number):
            evaluator, credit = credited
            step.steps.append(evaluator)
            step.name += f", credit {credit:+.2f}"
        root.steps.append(step)
        if turn["action"] == "question":
            history.append({"question": turn["question"], "answer": turn["answer"]})
    return root


def _scorer(
    run: FinishedRun, row: dict, turn: dict, history: list[dict]
) -> tuple[Step, float] | None:
    """The candidates at the state of a turn, and the turn's credit; None without candidates."""
    for group in run.groups:
        if (group["update"], group["case_id"]) != (row.get("update"), row["case_id"]):
            continue
        candidates = sorted(group["candidates"], key=lambda candidate: -candidate["utility"])
        executed = next(candidate for candidate in candidates if candidate["executed"])
        # The group may be of another consultation that came to the same state.
        if group["history"] != history or executed["response"] != turn["response"]:
            continue
        mean = sum(candidate["utility"] for candidate in candidates) / len(candidates)
        reason = (
            f"Its utility is {executed['utility']:.3f}; those of the {len(candidates)} candidates "
            f"at this state have mean {mean:.3f} and standard deviation {group['spread']:.3f}."
        )
        before = {
            "correct option": group["answer_label"],
            "probability of it before the question": round(group["baseline"], 4),
        }
        names = ("question", "answer", "utility", "gain", "credit", "executed", "supervised")
        after = {"why this credit": reason, "candidates": _rounded(candidates, names)}
        return Step("scorer", "EVALUATOR", before, after), executed["credit"]
    return None


def _critic(run: FinishedRun, row: dict, number: int) -> tuple[Step, float] | None:
    """The branches of a searched tree at a turn, and its advantage; None without a tree."""
    for tree in run.trees:
        if (tree["update"], tree["case_id"]) != (row.get("update"), row["case_id"]):
            continue
        nodes = tree["nodes"]
        path = path_of(nodes, [turn["response"] for turn in row["turns"]])
        if not path:
            continue
        node = nodes[path[number - 1]]
        before = nodes[node["parent"]]["value"]
        reason = (
            f"The critic values the state before this turn at {before:.3f} and the state after it "
            f"at {node['value']:.3f}; the reward is {node['reward']:+.2f}, and {node['visits']} "
            "complete consultations share the turn."
        )
        names = ("question", "answer", "value", "backed_up", "visits", "advantage", "pruned")
        branches = _rounded([nodes[child] for child in children(nodes, node["parent"])], names)
        after = {"why this credit": reason, "branches": branches}
        return Step("critic", "EVALUATOR", {"state": f"turn {number}"}, after), node["advantage"]
    return None


def path_of(nodes: Sequence[dict], responses: Sequence[str]) -> list[int]:
    """Index of the node after each response of a consultation; none where it is not in the tree.

    Branches of a state may have equal responses: the whole consultation says which was taken, and
    of equal paths it is the one that was visited most.
    """
    paths = [[0]]
    for response in responses:
        paths = [
            [*path, child]
            for path in paths
            for child in children(nodes, path[-1])
            if nodes[child]["response"] == response
        ]
    return max(paths, key=lambda path: nodes[path[-1]]["visits"], default=[0])[1:]


def children(nodes: Sequence[dict], parent: int) -> list[int]:
    """Indices of the nodes right below a node."""
    return [i for i, node in enumerate(nodes) if node["parent"] == parent]


def _rounded(rows: list[dict], names: Sequence[str]) -> list[dict]:
    """Some entries of rows, numbers with four digits, as the interface shows them."""
    return [
        {n: round(row[n], 4) if isinstance(row[n], float) else row[n] for n in names}
        for row in rows
    ]


def write(run: FinishedRun, run_id: str, client: "MlflowClient", experiment_id: str) -> None:
    """Write the sampled consultations of a run as traces, in the place of what a kill has left.

    Args:
        run: the run.
        run_id: the MLflow run to which they belong.
        client: of the store.
        experiment_id: of the study.

    Raises:
        MlflowException: a trace did not arrive.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    # The spans carry the run from the first on; the trace itself only once it has ended.
    of_run = f"span.attributes.{RUN_ID} LIKE '%{run_id}%'"
    place = [experiment_id]
    if left := client.search_traces(locations=place, filter_string=of_run, include_spans=False):
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in left])
    events = run.rows("training/events.jsonl")
    times = {event["update"]: milliseconds(event["time"]) for event in events}
    rows = sample(run)
    with _default_store(client.tracking_uri):
        for where, row in rows:
            start = 1_000_000 * times.get(row.get("update"), run.ended)
            tags = {
                **{"method": run.method, "run": run.run, "where": where},
                **{"case_id": row["case_id"], "correct": str(row["correct"])},
            }
            _write_trace(client, consultation(run, row), tags, experiment_id, run_id, start)
        mlflow.flush_trace_async_logging(terminate=True)
    # The client logs an error of this kind and goes on.
    stored = client.search_traces(
        locations=place, run_id=run_id, max_results=len(rows) + 1, include_spans=False
    )
    if len(stored) != len(rows):
        raise MlflowException(f"run {run_id} has lost traces")


@contextmanager
def _default_store(uri: str) -> Iterator[None]:
    """MLflow writes traces to its default store, which is this one for the time being."""
    import mlflow

    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


def _write_trace(
    client: "MlflowClient",
    root: Step,
    tags: dict[str, str],
    experiment_id: str,
    run_id: str,
    start: int,  # nanoseconds since 1970
) -> None:
    """Write one consultation as one trace."""
    clock = count(start, TICK)

    def write_below(parent: "Span", step: Step) -> None:
        for child in step.steps:
            span = client.start_span(
                child.name,
                parent.trace_id,
                parent.span_id,
                child.kind,
                child.inputs,
                {RUN_ID: run_id},
                next(clock),
            )
            write_below(span, child)
            client.end_span(span.trace_id, span.span_id, child.outputs, end_time_ns=next(clock))

    name = f"{tags['method']} {tags['run']}, {tags['where']}"
    attributes, now = {**root.attributes, RUN_ID: run_id}, next(clock)
    span = client.start_trace(
        name, root.kind, root.inputs, attributes, tags, experiment_id, now, run_id=run_id
    )
    write_below(span, root)
    client.end_trace(span.trace_id, root.outputs, end_time_ns=next(clock))
