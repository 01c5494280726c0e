"""Each credit beside the exact value of questions, at the states of one policy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from clinic_env.posterior import Values, answers_to, posterior
from clinic_env.world import World, asked_findings
from credit_lab.quality.credits import QUESTIONS, TURNS, asking_credits, question_credits
from credit_lab.quality.states import State, draw_states
from pcqc.clinic.expected import heard
from pcqc.clinic.world import load_world
from pcqc.engines.metered import MeteredEngine
from pcqc.evaluation.predictions import write_table
from pcqc.jobs.make_roles import checked_cases, make_context, make_scorer, selected_weights
from pcqc.jobs.rl_loop import policy_sampler
from pcqc.results.manifest import checked
from pcqc.system.determinism import single_threaded
from pcqc.system.progress import Phases
from turn_credit.arithmetic import expected_probability

if TYPE_CHECKING:
    from pcqc.results.tasks import Task

_STATE = [("case_id", pa.string()), ("turn", pa.int64()), ("draw", pa.int64())]
# A row for each candidate and draw. `last` and `best`: the diagnosis's accuracy after the question,
# if it is the last one, and if best ones follow as long as the turns last (Q*).
QUESTION_ROWS = pa.schema(
    [
        *(*_STATE, ("candidate", pa.int64()), ("question", pa.string())),
        *((name, pa.float64()) for name in ("last", "best", "reward", *QUESTIONS, *TURNS)),
    ]
)
# A row for each state and draw: credit of asking less that of answering, by method; `gain` is the
# mean reward of asking less the exact chance that the answer is right.
ASKING_ROWS = pa.schema([*_STATE, *((name, pa.float64()) for name in ("gain", *TURNS))])


def run(task: "Task") -> dict:
    """Draw the states of one policy and write what every credit makes of their questions."""
    single_threaded(task.settings.deterministic)
    settings = task.settings.quality
    cases = checked_cases(task.inputs["development"])[: settings.cases]
    world = load_world(checked(task.inputs["world"]))
    (benchmark,) = task.settings.development.values()
    exact = Exact(world, benchmark.base_rates, task.settings.protocol.max_turns)
    update, checkpoint, weights = selected_weights(task)
    context, scorer = make_context(task, weights), make_scorer(task)
    actor = policy_sampler(task.settings.actor_decoding, context)  # as in training
    context = replace(context, actor=actor)
    costs = Costs([context.actor, context.patient, scorer])
    states = draw_states(context, scorer, cases, settings, costs)
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
    """What the clinic knows of a state and its questions."""

    def __init__(self, world: World, base_rates: str, max_turns: int):
        rates = world.rates(base_rates)
        self.world, self.rates, self.values = world, rates, Values(world, rates)
        self.most = max_turns - 1

    def questions(self, state: State) -> Iterator[tuple[float, float, float]]:
        """Of each candidate: accuracy if it is the last, Q*, and its expected probability.

        One that names several findings has the accuracies of the best of them and the expected
        probability of all answers together.
        """
        answered, asked = heard(self.world, state.turn)
        left, silent = self.most - state.number, asked - answered.keys()
        last, best = (self.values(state.case, answered, silent, n) for n in (1, left))
        belief = posterior(self.world, state.case, answered, self.rates)
        for response in state.turn.responses:
            new = asked_findings(self.world, response.action.question) - asked
            expected = expected_probability(belief, answers_to(self.world, state.case, new))
            # One that names nothing new is worth as much as one that says nothing.
            if_last, if_best_follow = (
                max((values[finding] for finding in new), default=min(values.values()))
                for values in (last, best)
            )
            yield if_last, if_best_follow, expected

    def answer(self, state: State) -> float:
        """Chance that the actor's answer at the state is right."""
        answered, _ = heard(self.world, state.turn)
        belief = posterior(self.world, state.case, answered, self.rates)
        return float(belief[list(state.case.options).index(state.label)])


def question_rows(exact: Exact, state: State) -> Iterator[dict]:
    """Rows of `QUESTION_ROWS`."""
    values = list(exact.questions(state))
    rewards = [float(np.mean([played.reward for played in row])) for row in state.paths]
    for draw in range(len(state.paths[0])):
        credits = question_credits(state, draw, [expected for _, _, expected in values])
        for k, response in enumerate(state.turn.responses):
            yield {
                **_place(state, draw),
                "candidate": k,
                "question": response.action.question,
                "last": values[k][0],
                "best": values[k][1],
                "reward": rewards[k],
                **{name: float(credit[k]) for name, credit in credits.items()},
            }


def asking_rows(exact: Exact, state: State) -> Iterator[dict]:
    """Rows of `ASKING_ROWS`."""
    asking = float(np.mean([played.reward for row in state.paths for played in row]))
    gain = asking - exact.answer(state)
    for draw in range(len(state.paths[0])):
        yield {**_place(state, draw), "gain": gain, **asking_credits(state, draw)}


def _place(state: State, draw: int) -> dict:
    return {"case_id": state.case.case_id, "turn": state.number + 1, "draw": draw}
