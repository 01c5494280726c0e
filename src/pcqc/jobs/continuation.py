"""The continuation study of one policy: candidates first, then what comes of each.

Its states are those of the claim: each answer is the patient's own. Two further sets may stand
beside them: the same under an early checkpoint of the run, and states at which some answers are
made to lack grounds, for the filter alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext
from pcqc.determinism import single_threaded
from pcqc.engines.sharded import share_out
from pcqc.evaluation.choice import EARLY, MAIN, UNGROUNDED, selected_success
from pcqc.evaluation.continuation import Candidate, draw_candidates, draw_continuations
from pcqc.evaluation.predictions import write_table
from pcqc.jobs.make_roles import (
    checked_cases,
    checkpoint_weights,
    make_context,
    make_scorer,
    selected_weights,
)
from pcqc.roles import Scorer
from pcqc_base.errors import UserError
from pcqc_base.system.files import digest, read_json, write_json
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.system.progress import Progress
from pcqc_base.task import Task

CANDIDATES = pa.schema(
    [
        ("set", pa.string()),
        ("case_id", pa.string()),
        ("candidate", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("utility", pa.float64()),
        ("baseline", pa.float64()),
        ("credit", pa.float64()),
        ("executed", pa.bool_()),
        ("ungrounded", pa.bool_()),  # whether the answer was made to lack grounds
    ]
)
CONTINUATIONS = pa.schema(
    [
        ("set", pa.string()),
        ("case_id", pa.string()),
        ("candidate", pa.int64()),
        ("continuation", pa.int64()),
        ("correct", pa.bool_()),
        ("turns", pa.int64()),
        ("ending", pa.string()),
    ]
)
CASES_AT_ONCE = 16


Rows = list[dict]


@dataclass(frozen=True)
class StudiedCheckpoint:
    """A checkpoint, and with what its candidates and continuations are drawn.

    Attributes:
        update: after which it was written.
        checkpoint: its digest.
        context: actor and patient.
        scorer: gives the candidates' utilities.
        processes: that draw together.
    """

    update: int
    checkpoint: str
    context: RolloutContext
    scorer: Scorer
    processes: Processes


def run(
    task: Task,
    processes: Processes = SINGLE_PROCESS,
    ungrounded: "type[StateSet] | None" = None,
) -> dict:
    """Draw the study of one policy, resuming it block by block; entries of the manifest.

    Every process draws its share of each block and scores all of it; the first writes.

    Args:
        task: settings, models and cases.
        processes: that draw together.
        ungrounded: states at which some answers are made to lack grounds; the clinic has them.
    """
    settings = task.settings
    single_threaded(settings.deterministic)
    cases = checked_cases(task.inputs["development"])
    update, checkpoint, weights = selected_weights(task)
    context = make_context(task, weights)
    # Not the scorer: a share of the prompts would be other batches, and round otherwise.
    share_out((context.actor, context.patient), processes)
    policy = StudiedCheckpoint(update, checkpoint, context, make_scorer(task), processes)
    sets = [StateSet(task, MAIN, policy)]
    sets[0].draw(cases, settings.states)
    if settings.ungrounded:
        sets.append(ungrounded(task, UNGROUNDED, policy))
        sets[-1].draw(cases[sets[0].examined :], settings.ungrounded.states)
    if settings.early:
        checkpoint, weights = checkpoint_weights(task, settings.early)
        context.actor.engine.load_weights(weights.load().named_parameters())
        policy = replace(policy, update=settings.early, checkpoint=checkpoint)
        sets.append(StateSet(task, EARLY, policy))
        sets[-1].draw(cases, settings.states)
    if processes.is_main:
        candidates = {states.name: states.candidates for states in sets}
        continuations = {states.name: states.continuations for states in sets}
        _write(task, "candidates", CANDIDATES, candidates)
        _write(task, "continuations", CONTINUATIONS, continuations)
    return {
        "seed": settings.seed,
        "benchmark": settings.development,
        "candidates": settings.candidates,
        "continuations": settings.continuations,
        **sets[0].summary(),
        "further_sets": {states.name: states.summary() for states in sets[1:]},
    }


def _write(task: Task, name: str, columns: pa.Schema, rows_of_sets: Mapping[str, Rows]) -> None:
    """Write a table of all sets."""
    named = [{"set": key, **row} for key, rows in rows_of_sets.items() for row in rows]
    write_table(task.folder / f"{name}.parquet", pa.Table.from_pylist(named, columns))


class StateSet:
    """A set of states under way; finished blocks of cases lie in the job's state folder.

    Attributes:
        examined: number of cases that candidates were drawn of.
        candidates, continuations: rows of the two tables.
    """

    def __init__(self, task: Task, name: str, policy: StudiedCheckpoint):
        self.task, self.settings, self.name = task, task.settings, name
        self.policy, self.asking = policy, policy.context
        self.examined = 0
        self.candidates: Rows = []
        self.continuations: Rows = []

    def draw(self, cases: list[Case], wanted: int) -> None:
        """Fix candidates of the first cases that have enough valid ones, and continue each.

        There may be fewer such cases than wanted; the manifest says how many there are.
        """
        states: list[list[Candidate]] = []
        progress = self._progress("candidates", wanted, "state")
        for group in self._groups(cases):
            self.examined += 1
            if group is not None:
                states.append([Candidate(**c) for c in group])
                progress.advance()
            if len(states) == wanted:
                break
        progress.close()
        self.candidates = [c.row() for group in states for c in group]
        self._continue_all(states, {case.case_id: case for case in cases})

    def summary(self) -> dict:
        """What was drawn, for the manifest."""
        shape = (-1, self.settings.candidates, self.settings.continuations)
        utility = np.array([c["utility"] for c in self.candidates]).reshape(shape[:2])
        correct = np.array([r["correct"] for r in self.continuations], float).reshape(shape)
        chosen = selected_success(utility, correct.mean(axis=2)) if len(utility) else {}
        return {
            "update": self.policy.update,
            "checkpoint": self.policy.checkpoint,
            "states": len(utility),
            "replaced": self.examined - len(utility),
            "trajectories": len(self.continuations),
            "success": {name: float(values.mean()) for name, values in chosen.items()},
        }

    def _progress(self, what: str, total: int, unit: str) -> Progress:
        label = " ".join([what, *self.task.arguments, *([] if self.name == MAIN else [self.name])])
        return Progress(label, total, unit, silent=not self.policy.processes.is_main)

    def _groups(self, cases: list[Case]) -> Iterator[list[dict] | None]:
        """Candidates of case after case, drawn block by block; None where too few are valid."""
        for number, block in enumerate(_blocks(cases)):
            name = f"{self.name}-candidates-{number:04d}"
            yield from self._block(name, lambda block=block: self._ask(block))

    def _continue_all(self, states: list[list[Candidate]], by_id: dict[str, Case]) -> None:
        blocks = _blocks(states)
        progress = self._progress("continuations", len(blocks), "block")
        for number, block in enumerate(blocks):
            name = f"{self.name}-continuations-{number:04d}"
            cases = [by_id[group[0].case_id] for group in block]
            self.continuations += self._block(
                name, lambda cases=cases, block=block: self._continue(cases, block)
            )
            progress.advance()
        progress.close()

    def _block(self, name: str, draw) -> list:
        """A block's rows: read where it was finished before, else drawn and kept.

        Caches are emptied before each block, so a resumed study has those of an unbroken one.
        """
        path = self.task.state / f"{name}.json"
        policy, processes = self.policy, self.policy.processes
        if not processes.gather(path.exists())[0]:
            for role in (policy.context.actor, policy.context.patient, policy.scorer):
                role.engine.reset_cache()
            rows = draw()
            if processes.is_main:
                write_json(path, {"rows": rows, "digest": digest([name, rows])})
            processes.barrier()
        remedy = f"remove {path} and run the workflow again"
        kept = read_json(path, dict[str, Any], remedy)
        if digest([name, kept.get("rows")]) != kept.get("digest"):
            raise UserError(f"{path}: altered since it was written; {remedy}")
        return kept["rows"]

    def _ask(self, cases: list[Case]) -> list:
        drawn = draw_candidates(
            self.asking,
            self.policy.scorer,
            cases,
            candidates=self.settings.candidates,
            seed=self.settings.seed,
        )
        return [group and [asdict(c) for c in group] for group in drawn]

    def _continue(self, cases: list[Case], block: list[list[Candidate]]) -> Rows:
        return list(
            draw_continuations(
                self.policy.context,
                cases,
                block,
                continuations=self.settings.continuations,
                seed=self.settings.seed,
            )
        )


def _blocks(items: list) -> list[list]:
    """Consecutive blocks: what a kill costs is at most one."""
    return [items[i : i + CASES_AT_ONCE] for i in range(0, len(items), CASES_AT_ONCE)]
