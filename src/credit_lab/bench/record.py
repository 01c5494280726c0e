"""Records a replay bundle: candidate groups of some policies, with what is known exactly of each.

Cases are those of `clinic-v1`. Recorded are the states of a policy's consultations at which it
asks; at some of them every candidate is played on to the end.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clinic_env import ClinicCase, ClinicEnv, Consultation, read_action
from clinic_env.world import read_findings
from credit_lab.bench.bundle import state_name
from pcqc.cases.case import Case
from pcqc.clinic.expected import heard
from pcqc.consultation import Consultation as ConsultationLog
from pcqc.consultation import Dialogue, RolloutContext, require_answers, roll_out
from pcqc.jobs.make_roles import Weights, make_context, make_scorer
from pcqc.jobs.rl_loop import policy_sampler
from pcqc.jobs.run import rollout_task
from pcqc.methods.beliefs import actor_beliefs, scorer_beliefs
from pcqc.methods.continuations import after_candidates, continue_each
from pcqc.methods.question_groups import QuestionGroup, score_groups
from pcqc.methods.reward import correctness
from pcqc.models.pretrained import install
from pcqc.roles import Scorer
from pcqc.study import Study
from pcqc.system.determinism import single_threaded

STAGE = "creditbench"
FIRST_SEED = 1_000_000  # of the cases; no leaderboard of the environment begins there
CONTINUED_TURNS = (1, 3, 5)


@dataclass(frozen=True)
class Sizes:
    """How much is recorded of each policy.

    Attributes:
        groups: candidate groups.
        cases: consultations that they are taken from.
        candidates: K, questions sampled at a state.
        continued: groups whose candidates are played on.
        continuations: of each candidate.
    """

    groups: int = 1000
    cases: int = 250
    candidates: int = 4
    continued: int = 170
    continuations: int = 2


def record(
    study: Study, policies: Mapping[str, Path | None], sizes: Sizes, scratch: Path
) -> Iterator[dict]:
    """Rows of the bundle, policy by policy.

    Args:
        study: of published models: its protocol, patient and scorer are used.
        policies: name -> folder of the actor's weights; None for the study's Shared SFT.
        sizes: how much is recorded.
        scratch: an empty folder, for copies of the published models.
    """
    single_threaded(study.deterministic)
    for place, (policy, folder) in enumerate(policies.items()):
        context, scorer = _roles(study, folder, scratch / policy)
        cases = [_case(FIRST_SEED + place * sizes.cases + n) for n in range(sizes.cases)]
        groups = _groups(context, scorer, cases, sizes)[: sizes.groups]
        played = _continued(context, scorer, groups, sizes)
        env = ClinicEnv(exact=False)
        for number, (group, _) in enumerate(groups):
            row = {"policy": policy, **_described(group), **_exact(env, group)}
            yield row | played.get(number, {})


def _roles(study: Study, folder: Path | None, scratch: Path) -> tuple[RolloutContext, Scorer]:
    """Actor, patient and scorer; the actor samples as in training."""
    inputs = {}
    for role in ("actor", "patient", "scorer"):
        inputs[role] = scratch / role
        install(study.pretrained[study.starts_from(role)], inputs[role])
    task = dataclasses.replace(rollout_task(study, scratch), inputs=inputs)
    weights = {role: Weights(inputs[role], study.dtype(role)) for role in inputs}
    actor = Weights(folder or inputs["actor"], study.dtype("actor"))
    context = make_context(task, actor, patient=weights["patient"])
    context = dataclasses.replace(context, actor=policy_sampler(study.actor_decoding, context))
    return context, make_scorer(task, weights["scorer"])


def _case(seed: int) -> Case:
    env = ClinicEnv(exact=False)
    env.reset(seed=seed)
    written = vars(env.present.case)
    return Case(case_id=f"clinic-v1-{seed}", source="clinic_env", **written, origin={"row": seed})


def _groups(
    context: RolloutContext, scorer: Scorer, cases: Sequence[Case], sizes: Sizes
) -> list[tuple[QuestionGroup, ConsultationLog]]:
    """The candidate groups of one consultation of each case, with it."""
    rolled = roll_out(context, cases, rollouts=1, candidates=sizes.candidates, seed=0, stage=STAGE)
    require_answers(c for row in rolled for c in row)
    firsts = [(case, row[0]) for case, row in zip(cases, rolled, strict=True)]
    scored = score_groups(scorer, firsts)
    return [
        (group, consultation)
        for (_, consultation), of_case in zip(firsts, scored, strict=True)
        for group in of_case
    ]


def _continued(
    context: RolloutContext, scorer: Scorer, groups: Sequence, sizes: Sizes
) -> dict[int, dict]:
    """Number of a group -> what its candidates came to; of the first that can be played on."""
    chosen: list[int] = []
    dialogues: list[Dialogue] = []
    for number, (group, consultation) in enumerate(groups):
        if group.number + 1 not in CONTINUED_TURNS or not group.turn.all_ask(sizes.candidates):
            continue
        after = after_candidates(context, group.case, consultation, group.number)
        if len(chosen) < sizes.continued and all(d.consultation.ending is None for d in after):
            chosen.append(number)
            dialogues += after
    played = continue_each(context, dialogues, sizes.continuations, seed=0, stage=STAGE)
    every = [consultation for row in played for consultation in row]
    require_answers(every)
    known = zip(every, scorer_beliefs(scorer, every), actor_beliefs(context, every), strict=True)
    rows = {}
    for number in chosen:
        case = groups[number][0].case
        count = sizes.candidates * sizes.continuations
        rows[number] = _paths(case, [next(known) for _ in range(count)], sizes.continuations)
    return rows


def _paths(case: Case, known: Sequence, continuations: int) -> dict:
    """Lists [candidates][continuations], of turns where it is a row."""
    answer = case.public.labels.index(case.answer)
    of_paths: dict[str, list] = {
        "rewards": [correctness(case, c) for c, _, _ in known],
        "scorer_beliefs": [_short(scorer[:, answer]) for _, scorer, _ in known],
        "actor_beliefs": [_short(actor[:, answer]) for _, _, actor in known],
        "states": [[state_name(turn.exchanges) for turn in c.turns] for c, _, _ in known],
    }
    return {
        name: [rows[i : i + continuations] for i in range(0, len(rows), continuations)]
        for name, rows in of_paths.items()
    }


def _short(values: np.ndarray) -> list[float]:
    """A model's probabilities as float32 keeps them."""
    return values.astype(np.float32).tolist()


def _described(group: QuestionGroup) -> dict:
    """The state, its candidates and what the frozen roles made of them."""
    case, responses = group.case, group.turn.responses
    return {
        "case": case.case_id,
        "turn": group.number + 1,
        "initial": case.initial,
        "options": list(case.options.values()),
        "answer": case.public.labels.index(case.answer),
        "exchanges": [dataclasses.asdict(exchange) for exchange in group.turn.exchanges],
        "candidates": [response.action.question for response in responses],
        "labels": [r.action.text if r.action.kind == "final" else None for r in responses],
        "answers": [response.answer for response in responses],
        "utilities": _short(group.utilities),
        "baseline": float(np.float32(group.baseline)),
    }


def _exact(env: ClinicEnv, group: QuestionGroup) -> dict:
    """Posterior and, of each candidate, the exact utility, its expectation, and Q*."""
    case = group.case
    opened = ClinicCase(case.initial, case.question, dict(case.options), case.facts, case.answer)
    state = Consultation(env.world, opened, env.rules.max_turns, env.rates)
    state.answered, state.asked = heard(env.world, group.turn)
    state.turns = group.number
    rows = []
    for response in group.turn.responses:
        action, question = read_action(response.text), response.action.question or ""
        later = dataclasses.replace(state, answered=dict(state.answered), asked=set(state.asked))
        later.answered |= _said(env, response.answer)
        rows.append(
            (
                later.belief(),
                state.expected_utility(question),
                state.value_of(env.values, action),
                state.value_of(env.values, action, 1),
            )
        )
    names = ("exact_utilities", "expected", "q_star", "last")
    values = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return {"posterior": state.posterior().tolist(), "left": state.questions_left, **values}


def _said(env: ClinicEnv, answer: str | None) -> dict[int, bool]:
    return read_findings(env.world, answer or "")
