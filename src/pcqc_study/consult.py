"""One consultation in the terminal: watch doctor and patient on a case, or be the patient."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from pcqc.cases.case import Case, read_cases
from pcqc.cases.prompts import UNANSWERABLE
from pcqc.consultation import (
    Dialogue,
    Response,
    RolloutContext,
    advance,
    ask_patient,
    open_dialogues,
    roll_out,
    sample_responses,
)
from pcqc.consultation.turns import keep_candidates, width
from pcqc.engines.base import Failure
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import score_groups
from pcqc.roles import Patient, Scorer
from pcqc.roles.patient import Inquiry
from pcqc_base.errors import UserError, nearest
from pcqc_base.settings import Method
from pcqc_base.system.files import read_json
from pcqc_base.system.manifest import MANIFEST, checked
from pcqc_base.system.terminal import show
from pcqc_base.task import Task
from pcqc_study.explain import require_made
from pcqc_study.fingerprint import upstream
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds import CHECKPOINTS
from pcqc_study.run_job import latest_task, run_job
from pcqc_study.study_file import START, Study

# Without a case, so many are looked at, for so many turns, for candidates that differ.
LOOKED_AT, LOOKED_TURNS = 24, 3
SPEAKERS = {"Doctor:": "green", "Patient:": "cyan"}  # in colours, on a terminal
STAGE = "consult"  # names the random streams
ENDINGS = {
    "invalid_answer": "The doctor's answer names no option.",
    "no_action": "The doctor neither asked nor answered at its last turn.",
    "turn_limit": "The doctor has used all its turns.",
    "token_limit": "The consultation has become too long.",
    "patient_failed": "The patient's server failed.",
}


class Left(Exception):
    """The person has left the consultation."""


class Person:
    """A patient at the terminal; the model answers the questions that are not executed.

    Args:
        model: the study's patient.
        ask: prints a prompt and reads a line; raises EOFError at the end of the input.
    """

    def __init__(self, model: Patient, ask: Callable[[str], str]):
        self.model, self.engine, self.ask = model, model.engine, ask

    def answer(self, inquiries: Sequence[Inquiry]) -> list[str | Failure]:
        """The person's answer to the first inquiry, which is executed; the model's to others."""
        try:
            line = self.ask("You: ").strip()
        except EOFError:
            raise Left from None
        return [line or UNANSWERABLE, *(self.model.answer(inquiries[1:]) if inquiries[1:] else [])]


def consult(
    study: Study,
    method: str,
    run: str,
    *,
    case: str | None = None,
    benchmark: str | None = None,
    be_patient: bool = False,
    candidates: int = 1,
    seed: int = 0,
) -> None:
    """Hold one consultation with a run's chosen checkpoint and print it turn by turn.

    Args:
        study, method, run: whose doctor; its checkpoint must have been chosen.
        case: id of a case; where not given the first of the benchmark or, with several candidates,
            the first of those whose candidates differ most.
        benchmark: the development benchmark where not given.
        be_patient: the person at the terminal answers.
        candidates: responses to sample at each state; several are scored, credited and shown.
        seed: another one samples another consultation.

    Raises:
        UserError: no such run, benchmark or case, or the run is not that far.
    """
    name = benchmark or study.development
    if name not in study.benchmarks:
        raise UserError(f"no benchmark '{name}'{nearest(name, study.benchmarks)}")
    if _published(study, method, run):
        jobs = Jobs(study)
        read = (jobs.job("prepare", name), jobs.job("sft"), jobs.job("select", method, run))
        for job in upstream(job for job in read if not job.latest.exists()):
            if not job.manifest.exists():  # cases and published models: seconds
                run_job(study, job.kind, *job.arguments)
    require_made(study, method, run, "select")
    task = latest_task(study, "evaluate", method, run)
    cases, streams = read_cases(checked(task.inputs[f"cases {name}"])), f"{seed}/{STAGE}"
    chosen, title = _case(cases, name, case), f"{study.method(method).title}, run {run}"
    _require_weights(task)
    searched = case is None and candidates > 1
    if not searched:  # read while torch loads
        _show_case(title, chosen, be_patient)
    context, scorer = _roles(study, task, candidates)
    if searched:
        chosen = _telling(context, cases[:LOOKED_AT], candidates, seed)
        _show_case(title, chosen, be_patient)
    if be_patient:
        person = cast(Patient, Person(context.patient, _read_line))
        context = dataclasses.replace(context, patient=person)
    try:
        _play(context, scorer, study.method(method), chosen, candidates, streams)
    except Left:
        show("\nYou have left the consultation.")


def _require_weights(task: Task) -> None:
    """Raise UserError where the chosen checkpoint is not here; without torch, so at once."""
    update = read_json(checked(task.inputs["selection"]))["selected"]["update"]
    folder = task.inputs["run"] / CHECKPOINTS / f"{update:06d}" if update else task.inputs["actor"]
    checked(folder / MANIFEST)


def _roles(study: Study, task: Task, candidates: int) -> tuple[RolloutContext, Scorer | None]:
    """Doctor and patient, and the scorer of several candidates."""
    from pcqc.determinism import single_threaded  # torch takes seconds
    from pcqc.jobs.make_roles import make_context, make_scorer, selected_weights

    single_threaded(study.deterministic)
    _, _, weights = selected_weights(task)
    return make_context(task, weights), make_scorer(task) if candidates > 1 else None


def _published(study: Study, method: str, run: str) -> bool:
    """Whether the doctor is the clinic's published one, for whom nothing must be trained."""
    study.require_run(method, run)
    return method == START and study.synthetic and bool(study.models and study.models.patient)


def _case(cases: Sequence[Case], benchmark: str, case_id: str | None) -> Case:
    by_id = {case.case_id: case for case in cases}
    if case_id is None:
        return cases[0]
    if case_id not in by_id:
        hint = (
            nearest(case_id, by_id) if len(cases) < 20 else f"; the first is '{cases[0].case_id}'"
        )
        raise UserError(f"no case '{case_id}' in {benchmark}{hint}")
    return by_id[case_id]


def _telling(context: RolloutContext, cases: Sequence[Case], candidates: int, seed: int) -> Case:
    """The case with the most distinct candidates at its first states."""
    played = roll_out(
        context,
        cases,
        rollouts=1,
        candidates=candidates,
        seed=seed,
        stage=STAGE,
        turns=LOOKED_TURNS,
    )
    distinct = [
        sum(len({r.action.question for r in turn.responses}) - 1 for turn in consultation.turns)
        for (consultation,) in played
    ]
    return cases[int(np.argmax(distinct))]


def _show_case(doctor: str, case: Case, be_patient: bool) -> None:
    """What the doctor is told, and to a person who is the patient also what the patient knows."""
    show(f"{doctor}, on {case.case_id}: {case.initial}")
    show(case.question)
    for label, text in case.options.items():
        show(f"  {label}. {text}")
    if be_patient:
        show("You are the patient. This is what you know:")
        for fact in case.facts:
            show(f"  {fact}")
        show(f"Answer in a line; an empty line means: {UNANSWERABLE} Ctrl-D leaves.")


def _play(
    context: RolloutContext,
    scorer: Scorer | None,
    method: Method,
    case: Case,
    candidates: int,
    name: str,
) -> None:
    """Play turn after turn, as `roll_out` does, and print each."""
    (dialogue,) = open_dialogues(context, [case])
    while dialogue.consultation.ending is None:
        count = width(context, dialogue, candidates)
        (group,) = sample_responses(context, [dialogue], [count], name)
        group = keep_candidates(group)
        show(f"Doctor: {group[0].text.strip()}", SPEAKERS)
        (group,) = ask_patient(context, [dialogue], [group], name)
        if group[0].answer is not None and not isinstance(context.patient, Person):
            show(f"Patient: {group[0].answer}", SPEAKERS)
        advance(context, dialogue, group)
        if scorer and len(group) > 1 and group[0].answer is not None:
            _show_candidates(scorer, method, case, dialogue, group)
    show(_outcome(case, dialogue))


def _crediting(method: Method, candidates: int) -> Pcqc:
    """The method whose credit rule is displayed: the run's own, or else PCQC.

    PCQC's stands in where a method credits no candidates, or by more than the scorer's readings.
    """
    own = isinstance(method, Pcqc) and method.scorer_during_rollouts
    shown = cast(Pcqc, method) if own else Pcqc("PCQC", "pcqc")
    return dataclasses.replace(shown, question_group=candidates)


def _show_candidates(
    scorer: Scorer, method: Method, case: Case, dialogue: Dialogue, group: Sequence[Response]
) -> None:
    """A line for each response of the last turn, the most useful first."""
    consultation = dialogue.consultation
    turn = dataclasses.replace(consultation, turns=consultation.turns[-1:])
    (groups,) = score_groups(scorer, [(case, turn)])
    if not groups:
        return show("  The scorer's server failed: no candidates to show.")
    (scored,) = groups
    own = _crediting(method, len(group))
    own.credit([scored])
    among = " if this state were all of an update" if own.divide in ("update", "shrunk") else ""
    show(
        f"  The scorer gave the correct option {scored.baseline:.3f} before. The candidates, "
        f"as {own.title} credits them{among}, with a spread of {scored.utility_std:.4f}:"
    )
    show("    utility    gain  credit")
    for k in sorted(range(len(group)), key=lambda k: -scored.utilities[k]):
        question = group[k].action.question or f"(no question) {group[k].text}"
        numbers = f"{scored.utilities[k]:7.3f} {scored.gains[k]:+7.3f} {scored.credits[k]:+7.2f}"
        answer = f" -> {group[k].answer}" if group[k].answer is not None else ""
        show(f"  {'*' if k == 0 else ' '} {numbers}  {' '.join(f'{question}{answer}'.split())}")


def _outcome(case: Case, dialogue: Dialogue) -> str:
    consultation = dialogue.consultation
    if consultation.ending != "answer":
        how = ENDINGS[str(consultation.ending)]
    else:
        verdict = "right" if consultation.is_correct(case) else "wrong"
        label = consultation.predicted
        how = f"The doctor's diagnosis is {label}, {case.options[label]}: {verdict}."
    return f"{how} The correct option is {case.answer}, {case.options[case.answer]}."


def _read_line(prompt: str) -> str:
    print(prompt, end="", flush=True)
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line
