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
from credit_lab.bench.bundle import state_name, write_bundle
from pcqc.cases.case import Case
from pcqc.consultation import Consultation as ConsultationLog
from pcqc.consultation import Dialogue, RolloutContext, require_answers, roll_out
from pcqc.determinism import single_threaded
from pcqc.jobs.make_roles import Weights, make_context, make_scorer, role_weights, weights_of
from pcqc.jobs.rl_loop import policy_sampler
from pcqc.methods.question_groups import QuestionGroup, score_groups
from pcqc.methods.reward import outcome_reward
from pcqc.roles import Scorer
from pcqc_base.errors import UserError
from pcqc_base.system.files import sha256_file, write_atomic
from pcqc_base.system.manifest import checked, read_manifest, result_of
from pcqc_base.task import Task
from pcqc_clinic.known_world import heard
from pcqc_clinic.world import load_world
from pcqc_peers.beliefs import actor_beliefs, scorer_beliefs
from pcqc_peers.continuations import after_candidates, continue_each
from pcqc_study.run_job import latest_task
from pcqc_study.study_file import Study

CARD = Path(__file__).with_name("card.md")  # of every bundle, to be filled in
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
        continuations: how many each candidate gets.
    """

    groups: int = 1250
    cases: int = 400
    candidates: int = 4
    continued: int = 128
    continuations: int = 4


def record_run(
    study: Study, methods: Sequence[str], run: str, bundle: Path, sizes: Sizes = Sizes()
) -> str:
    """Record Shared SFT and methods' first and last checkpoint; write the bundle and its card.

    Args:
        study: with the trained runs.
        methods: whose checkpoints; the first one's run says which patient and scorer.
        run: the run of each.
        bundle: the file to write; the card goes beside it.
        sizes: how much is recorded.

    Returns:
        What was written, a line.

    Raises:
        UserError: a run is not trained, or is of another world.
    """
    tasks = {method: latest_task(study, "train", method, run) for method in methods}
    task = tasks[methods[0]]
    if load_world(checked(task.inputs["world"])) != ClinicEnv(exact=False).world:
        raise UserError(f"study '{study.name}': its world is not clinic-v1's, whose cases are used")
    weights = {"shared_sft": role_weights(task, "actor")}
    for method, of_method in tasks.items():
        weights |= _first_and_last(method, of_method)
    rows = list(record(task, weights, sizes))
    write_bundle(bundle, rows)
    policies = [
        _card_row(name, own, [row for row in rows if row["policy"] == name])
        for name, own in weights.items()
    ]
    size = f"{bundle.stat().st_size / 1e6:.1f} MB"
    text = CARD.read_text(encoding="utf-8").format(
        bundle=bundle.name,
        sha256=sha256_file(bundle),
        size=size,
        policies="\n".join(policies),
        **dataclasses.asdict(sizes),
    )
    write_atomic(bundle.with_suffix(".md"), text)
    return f"{bundle}: {len(rows):,} groups, {size}; its card is beside it"


def _first_and_last(method: str, task: Task) -> dict[str, Weights]:
    """A policy's name -> its weights, of a run's first and last checkpoint; of one, the last."""
    checkpoints, dtype = read_manifest(task.folder)["checkpoints"], task.settings.dtypes["actor"]
    kept = {"early": checkpoints[0], "late": checkpoints[-1]}
    return {
        f"{method}_{when}": weights_of(task.folder / entry["path"], dtype)
        for when, entry in kept.items()
        if when == "late" or len(checkpoints) > 1
    }


def _card_row(name: str, own: Weights, rows: Sequence[dict]) -> str:
    """What a card says of a policy: its rows, and where its weights are from."""
    made = read_manifest(result_of(own.folder))
    place = own.folder.resolve().relative_to(Path.cwd()).as_posix()
    cells = [f"`{name}`", f"{len(rows):,}", f"{sum('rewards' in row for row in rows):,}"]
    cells += [f"`{place}`", made["finished"][:10], made["git_commit"][:7]]
    digest = sha256_file(own.folder / "model.safetensors")
    cells += [made["machine"]["processor"], f"`{digest[:8]}`"]
    return f"| {' | '.join(cells)} |"


def record(task: Task, policies: Mapping[str, Weights], sizes: Sizes) -> Iterator[dict]:
    """Rows of the bundle, policy by policy.

    Args:
        task: a run's; its protocol, patient and scorer are used.
        policies: name -> the actor's weights.
        sizes: how much is recorded.
    """
    single_threaded(task.settings.deterministic)
    scorer, env = make_scorer(task), ClinicEnv(exact=False)
    for place, (policy, weights) in enumerate(policies.items()):
        context = make_context(task, weights)
        # It samples as in training.
        actor = policy_sampler(task.settings.actor_decoding, context)
        context = dataclasses.replace(context, actor=actor)
        cases = [_case(FIRST_SEED + place * sizes.cases + n) for n in range(sizes.cases)]
        groups = _groups(context, scorer, cases, sizes)[: sizes.groups]
        played = _continued(context, scorer, groups, sizes)
        for number, (group, _) in enumerate(groups):
            row = {"policy": policy, **_described(group), **_exact(env, group)}
            yield row | played.get(number, {})


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
        "rewards": [outcome_reward(case, c) for c, _, _ in known],
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
        later.answered |= read_findings(env.world, response.answer or "")
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
