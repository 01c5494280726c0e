"""The continuation study of one policy: candidates first, then what comes of each."""

import dataclasses
from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from pcqc.cases.case import Case
from pcqc.clinic.ungrounded import Changed, UngroundedPatient
from pcqc.clinic.world import load_world
from pcqc.consultation import RolloutContext
from pcqc.engines.sharded import share_out
from pcqc.errors import UserError
from pcqc.evaluation.choice import selected_success
from pcqc.evaluation.continuation import Candidate, draw_candidates, draw_continuations
from pcqc.evaluation.predictions import write_table
from pcqc.jobs.make_roles import checked_cases, make_context, make_scorer, selected_weights
from pcqc.results.json_shapes import Block
from pcqc.results.manifest import checked
from pcqc.results.tasks import Task
from pcqc.roles import Patient
from pcqc.study import digest
from pcqc.system.determinism import single_threaded
from pcqc.system.files import read_json, write_json
from pcqc.system.processes import SINGLE_PROCESS, Processes
from pcqc.system.progress import Progress

CANDIDATES = pa.schema(
    [
        ("case_id", pa.string()),
        ("candidate", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("utility", pa.float64()),
        ("baseline", pa.float64()),
        ("credit", pa.float64()),
        ("executed", pa.bool_()),
    ]
)
CONTINUATIONS = pa.schema(
    [
        ("case_id", pa.string()),
        ("candidate", pa.int64()),
        ("continuation", pa.int64()),
        ("correct", pa.bool_()),
        ("turns", pa.int64()),
        ("ending", pa.string()),
    ]
)
CASES_AT_ONCE = 16


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> dict:
    """Draw the study of one policy, resuming it block by block; entries of the manifest.

    Every process draws its share of each block and scores all of it; the first writes.
    """
    single_threaded(task.settings.deterministic)
    study = ContinuationStudy(task, processes)
    states = study.candidates()
    return study.write(states, study.continuations(states))


class ContinuationStudy:
    """One policy's study under way; finished blocks of cases lie in its state folder."""

    def __init__(self, task: Task, processes: Processes):
        self.task, self.settings, self.state = task, task.settings, task.state
        self.processes = processes
        self.label = " ".join(task.arguments)
        self.cases = checked_cases(task.inputs["development"])
        self.update, self.checkpoint, weights = selected_weights(task)
        self.context, self.scorer = make_context(task, weights), make_scorer(task)
        # Not the scorer: a share of the prompts would be other batches, and round otherwise.
        share_out((self.context.actor, self.context.patient), processes)
        self.asking = self._asking()
        self.examined = 0

    def candidates(self) -> list[list[Candidate]]:
        """The first cases that have as many valid candidates as wanted, with these.

        There may be fewer such cases than wanted; the manifest says how many there are.
        """
        states: list[list[Candidate]] = []
        progress = self._progress("candidates", self.settings.states, "state")
        for group in self._groups():
            self.examined += 1
            if group is not None:
                states.append([Candidate(**c) for c in group])
                progress.advance()
            if len(states) == self.settings.states:
                break
        progress.close()
        return states

    def _groups(self) -> Iterator[list[dict] | None]:
        """Candidates of case after case, drawn block by block; None where too few are valid."""
        for number, cases in enumerate(_blocks(self.cases)):
            name = f"candidates-{number:04d}"
            yield from self._block(name, lambda cases=cases: self._ask(cases))

    def continuations(self, states: list[list[Candidate]]) -> list[dict]:
        """All continuations of all candidates."""
        blocks, rows = _blocks(states), []
        progress = self._progress("continuations", len(blocks), "block")
        for number, block in enumerate(blocks):
            name = f"continuations-{number:04d}"
            rows += self._block(name, lambda block=block: self._continue(block))
            progress.advance()
        progress.close()
        return rows

    def write(self, states: list[list[Candidate]], rows: list[dict]) -> dict:
        """Write both tables; entries of the manifest."""
        candidates = [c.row() for group in states for c in group]
        columns = CANDIDATES
        if self.settings.ungrounded:  # some answers were made to err: the column says which
            columns = columns.append(pa.field("ungrounded", pa.bool_()))
        tables = {
            "candidates.parquet": pa.Table.from_pylist(candidates, columns),
            "continuations.parquet": pa.Table.from_pylist(rows, CONTINUATIONS),
        }
        for name, table in tables.items() if self.processes.is_main else ():
            write_table(self.task.folder / name, table)
        shape = (len(states), self.settings.candidates, self.settings.continuations)
        utility = np.array([c["utility"] for c in candidates]).reshape(shape[:2])
        correct = np.array([r["correct"] for r in rows], float).reshape(shape)
        chosen = selected_success(utility, correct.mean(axis=2)) if states else {}
        return {
            "seed": self.settings.seed,
            "update": self.update,
            "checkpoint": self.checkpoint,
            "benchmark": self.settings.development,
            "states": len(states),
            "replaced": self.examined - len(states),
            "candidates": self.settings.candidates,
            "continuations": self.settings.continuations,
            "trajectories": len(rows),
            "success": {name: float(values.mean()) for name, values in chosen.items()},
        }

    def _block(self, name: str, draw) -> list:
        """A block's rows: read where it was finished before, else drawn and kept.

        Caches are emptied before each block, so a resumed study has those of an unbroken one.
        """
        path = self.state / f"{name}.json"
        if not self.processes.gather(path.exists())[0]:
            for role in (self.context.actor, self.context.patient, self.scorer):
                role.engine.reset_cache()
            rows = draw()
            if self.processes.is_main:
                write_json(path, {"rows": rows, "digest": digest([name, rows])})
            self.processes.barrier()
        remedy = f"remove {path} and run the workflow again"
        kept = read_json(path, Block, remedy)
        if digest([name, kept["rows"]]) != kept["digest"]:
            raise UserError(f"{path}: altered since it was written; {remedy}")
        return kept["rows"]

    def _progress(self, what: str, total: int, unit: str) -> Progress:
        silent = not self.processes.is_main
        return Progress(f"{what} {self.label}", total, unit, silent=silent)

    def _asking(self) -> RolloutContext:
        """The roles that draw candidates: there the clinic's patient may be made to err."""
        if not self.settings.ungrounded:
            return self.context
        share, seed = self.settings.ungrounded, self.settings.seed
        world = load_world(checked(self.task.inputs["world"]))
        patient = UngroundedPatient(self.context.patient, world, share, seed)
        return dataclasses.replace(self.context, patient=cast(Patient, patient))

    def _ask(self, cases: list[Case]) -> list:
        drawn = draw_candidates(
            self.asking,
            self.scorer,
            cases,
            candidates=self.settings.candidates,
            seed=self.settings.seed,
        )
        if self.settings.ungrounded:
            changed = cast(UngroundedPatient, self.asking.patient).changed
            facts = {case.case_id: case.facts for case in cases}
            drawn = [group and [_marked(c, facts, changed) for c in group] for group in drawn]
        return [group and [dataclasses.asdict(c) for c in group] for group in drawn]

    def _continue(self, block: list[list[Candidate]]) -> list[dict]:
        by_id = {case.case_id: case for case in self.cases}
        return list(
            draw_continuations(
                self.context,
                [by_id[group[0].case_id] for group in block],
                block,
                continuations=self.settings.continuations,
                seed=self.settings.seed,
            )
        )


def _marked(candidate: Candidate, facts: dict[str, tuple[str, ...]], changed: Changed) -> Candidate:
    """The candidate with the truth of its answer."""
    key = (facts[candidate.case_id], candidate.question, candidate.answer)
    return dataclasses.replace(candidate, ungrounded=key in changed)


def _blocks(items: list) -> list[list]:
    """Consecutive blocks: what a kill costs is at most one."""
    return [items[i : i + CASES_AT_ONCE] for i in range(0, len(items), CASES_AT_ONCE)]
