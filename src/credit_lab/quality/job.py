"""Each credit beside the exact value of questions, at the states of one policy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from credit_lab.quality.alternatives import Alternatives, draw_alternatives
from credit_lab.quality.state_credits import QUESTIONS, TURNS, asking_credits, question_credits
from pcqc.clinic.expected import answers_to, heard
from pcqc.clinic.posterior import posterior
from pcqc.clinic.quality import Values
from pcqc.clinic.world import World, asked_findings
from pcqc.engines.metered import MeteredEngine
from pcqc.evaluation.predictions import write_table
from pcqc.jobs.rl_loop import policy_sampler
from pcqc.jobs.select import selected_weights
from pcqc.jobs.setup import checked_cases, make_context, make_scorer
from pcqc.methods.peer_credit import expected_probability
from pcqc.study.manifest import checked
from pcqc.system.determinism import single_threaded
from pcqc.system.progress import Phases

if TYPE_CHECKING:
    from pcqc.study.graph import Task

CREDITS = (*QUESTIONS, *TURNS)
_STATE = [("case_id", pa.string()), ("turn", pa.int64()), ("draw", pa.int64())]
# `last` and `best`: the diagnosis's accuracy after the question, if it is the last one, and if best
# ones follow as long as the turns last (Q*).
QUESTION_ROWS = pa.schema(
    [
        *(*_STATE, ("candidate", pa.int64()), ("question", pa.string())),
        *((name, pa.float64()) for name in ("last", "best", "reward", *CREDITS)),
    ]
)
# Whether asking is credited over answering: credit of asking less that of answering, by method;
# `gain` is the mean reward of asking less the exact chance that the answer is right.
ASKING_ROWS = pa.schema([*_STATE, *((name, pa.float64()) for name in ("gain", *TURNS))])


def run(task: "Task") -> dict:
    """Draw the states of one policy and write what every credit makes of their questions."""
    single_threaded(task.settings.deterministic)
    settings = task.settings.quality
    cases = checked_cases(task.inputs["development"])[: settings.cases]
    world = World.load(checked(task.inputs["world"]))
    update, checkpoint, weights = selected_weights(task)
    context, scorer = make_context(task, weights), make_scorer(task)
    actor = policy_sampler(task.settings.actor_decoding, context)  # as in training
    context = replace(context, actor=actor)
    costs = Costs([context.actor, context.patient, scorer])
    states = draw_alternatives(
        context,
        scorer,
        cases,
        turns=settings.turns,
        candidates=settings.candidates,
        continuations=settings.continuations,
        imagined_answers=settings.imagined_answers,
        seed=settings.seed,
        phases=costs,
    )
    (benchmark,) = task.settings.development.values()
    exact = Exact(world, benchmark.base_rates, task.settings.protocol.max_turns)
    tables = {
        "questions.parquet": (QUESTION_ROWS, (r for s in states for r in question_rows(exact, s))),
        "asking.parquet": (ASKING_ROWS, (r for s in states for r in asking_rows(exact, s))),
    }
    for name, (schema, rows) in tables.items():
        write_table(task.folder / name, pa.Table.from_pylist(list(rows), schema))
    return {
        "seed": settings.seed,
        "update": update,
        "checkpoint": checkpoint,
        "states": len(states),
        "candidates": settings.candidates,
        "continuations": settings.continuations,
        "imagined_answers": settings.imagined_answers,
        "seconds": costs.seconds,
        **costs.tokens,
    }


class Costs(Phases):
    """Seconds and tokens of each part of the drawing.

    Args:
        roles: whose engines are counted.

    Attributes:
        tokens: `sampled` and `read` -> part -> tokens of all roles.
    """

    def __init__(self, roles: Sequence):
        super().__init__()
        self.tokens: dict[str, dict[str, int]] = {"sampled": {}, "read": {}}
        for role in roles:
            role.engine = MeteredEngine(role.engine)
        self._meters = [role.engine for role in roles]

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """See `Phases.time`."""
        with super().time(name):
            yield
        for meter in self._meters:
            for kind, count in meter.take_counts().items():
                self.tokens[kind][name] = self.tokens[kind].get(name, 0) + count


class Exact:
    """What is known exactly of a state and its questions."""

    def __init__(self, world: World, base_rates: str, max_turns: int):
        rates = world.rates(base_rates)
        self.world, self.rates, self.values = world, rates, Values(world, rates)
        self.most = max_turns - 1

    def questions(self, found: Alternatives) -> Iterator[tuple[float, ...]]:
        """Of each candidate: accuracy if it is the last, Q*, and its expected probability.

        One that names several findings has the accuracies of the best of them and the expected
        probability of all answers together.
        """
        answered, asked = heard(self.world, found.turn)
        left, silent = self.most - found.number, asked - answered.keys()
        last, best = (self.values(found.case, answered, silent, n) for n in (1, left))
        belief = posterior(self.world, found.case, answered, self.rates)
        for response in found.turn.responses:
            new = asked_findings(self.world, response.action.question) - asked
            expected = expected_probability(belief, answers_to(self.world, found.case, new))
            # One that names nothing new is worth as much as one that says nothing.
            values = [max((v[f] for f in new), default=min(v.values())) for v in (last, best)]
            yield (*values, expected)

    def answer(self, found: Alternatives) -> float:
        """Chance that the actor's answer at the state is right."""
        answered, _ = heard(self.world, found.turn)
        belief = posterior(self.world, found.case, answered, self.rates)
        return float(belief[list(found.case.options).index(found.label)])


def question_rows(exact: Exact, found: Alternatives) -> Iterator[dict]:
    """Rows of `QUESTION_ROWS`."""
    values = list(exact.questions(found))
    expected = [value[2] for value in values]
    for draw in range(min(map(len, found.paths))):
        credits = question_credits(found, draw, expected)
        for k, response in enumerate(found.turn.responses):
            yield {
                **_state(found, draw),
                "candidate": k,
                "question": response.action.question,
                "last": values[k][0],
                "best": values[k][1],
                "reward": float(np.mean([path.reward for path in found.paths[k]])),
                **{name: float(credits[name][k]) for name in CREDITS},
            }


def asking_rows(exact: Exact, found: Alternatives) -> Iterator[dict]:
    """Rows of `ASKING_ROWS`."""
    asking = float(np.mean([path.reward for row in found.paths for path in row]))
    for draw in range(min(map(len, found.paths))):
        credits = asking_credits(found, draw)
        yield {
            **_state(found, draw),
            "gain": asking - exact.answer(found),
            **{name: credits[name][0] - credits[name][1] for name in TURNS},
        }


def _state(found: Alternatives, draw: int) -> dict:
    return {"case_id": found.case.case_id, "turn": found.number + 1, "draw": draw}
