"""Dialogues that each go on alone are those that are played turn by turn."""

import dataclasses
import random
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from helpers import PROTOCOL, Thread, in_processes, make_case, scripted_context
from scripted_engine import ScriptedEngine

from pcqc.consultation import RolloutContext, roll_out
from pcqc.engines.base import Failure, Request, Sampling
from pcqc.engines.metered import MeteredEngine
from pcqc.engines.sharded import ShardedEngine
from pcqc.methods.question_groups import score_groups
from pcqc.roles import Scorer
from pcqc_base.system.processes import Processes

CASES = [make_case(number) for number in range(5)]
ROLES = ("actor", "patient")


class Streaming(ScriptedEngine):
    """Finishes one request at a time, of those in progress any one."""

    streams = True

    def __init__(self, engine: ScriptedEngine, seed: int, most: list[int]):
        super().__init__(engine._reply, engine._scores)
        self.open: dict[int, tuple[Request, Sampling]] = {}
        self.random, self.count, self.most = random.Random(seed), 0, most

    def submit(self, request: Request, sampling: Sampling) -> int:
        self.count += 1
        self.open[self.count] = request, sampling
        executed = sum(len(open.streams) == 1 for open, _ in self.open.values())
        self.most[0] = max(self.most[0], executed)
        return self.count

    def collect(self, wait: bool) -> dict[int, list]:
        ticket = self.random.choice([*self.open])
        request, sampling = self.open.pop(ticket)
        return {ticket: super().generate([request], sampling)[0]}

    def generate(self, requests: Sequence[Request], sampling: Sampling):
        raise AssertionError("all requests are submitted one by one")


def say(case_id: str, rollout: int, turn: int, k: int) -> str:
    """Dialogues of one to four turns; some candidates ask nothing."""
    length = (int(case_id[-1]) + rollout) % 4
    if turn >= length:
        return f"Final Answer: {'ABCD'[k % 4]}"
    return f"Question: any {turn} {k}?" if k % 3 != 2 else "I wonder."


def context() -> RolloutContext:
    return scripted_context(say, CASES, answer=lambda prompt: f"It is {len(prompt)}.")


def streaming(seed: int, wrap=lambda engine: engine) -> tuple[RolloutContext, list[int]]:
    """The same roles on engines that stream; and how many executed turns were sampled at once."""
    made, most = context(), [0]
    made.actor.engine = wrap(Streaming(made.actor.engine, seed, most))
    made.patient.engine = wrap(Streaming(made.patient.engine, seed + 1, [0]))
    return made, most


def played(made: RolloutContext, **options):
    return roll_out(made, CASES, rollouts=3, candidates=4, seed=1, stage="test", **options)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("turns", [None, 1])
def test_consultations_do_not_depend_on_the_order_of_replies(seed, turns):
    made, most = streaming(seed)
    assert played(made, turns=turns) == played(context(), turns=turns)
    assert most[0] == len(CASES) * 3  # all dialogues at once


def drawn(engine) -> list[tuple]:
    """Notes the prompt and stream of every sample from now on."""
    samples, reply = [], engine._reply
    engine._reply = lambda prompt, stream: samples.append((prompt, stream)) or reply(prompt, stream)
    return samples


def test_what_the_engines_are_asked_is_the_same():
    """But for candidates of a state whose executed response asks nothing: they are not kept."""
    made, plain = streaming(0)[0], context()
    asked = {role: [drawn(getattr(one, role).engine) for one in (made, plain)] for role in ROLES}
    consultations = played(made)
    played(plain)
    assert sorted(asked["patient"][0]) == sorted(asked["patient"][1])
    mine, other = asked["actor"]
    assert len(mine) == len({*mine})
    assert {*mine} <= {*other}
    before_the_last = [t for row in consultations for t in row[0].turns[: PROTOCOL.max_turns - 1]]
    unasked = sum(turn.executed.action.kind == "final" for turn in before_the_last)
    assert unasked > 0
    assert len(mine) == len(other) - 3 * unasked


def test_streamed_or_not_the_same_tokens_are_counted():
    made, plain = streaming(0, wrap=MeteredEngine)[0], context()
    plain.patient.engine = MeteredEngine(plain.patient.engine)
    played(made), played(plain)
    counts = made.patient.engine.take_counts()
    assert counts == plain.patient.engine.take_counts()
    assert min(counts.values()) > 0


def test_a_process_that_is_ready_plays_what_another_has_not_begun(monkeypatch):
    """Each begins two of fifteen dialogues; the second process then waits for the first's end."""
    second_has_begun, first_has_ended = threading.Event(), threading.Event()
    gather, queue, begun = Thread.gather, Processes.queue, {0: [], 1: []}

    def ended(processes, value):
        if processes.is_main:
            first_has_ended.set()
        return gather(processes, value)

    def noted(processes, count):
        for number in queue(processes, count):
            begun[processes.rank].append(number)
            if len(begun[1]) == 2:
                second_has_begun.set()
            yield number

    monkeypatch.setattr(Thread, "gather", ended)
    monkeypatch.setattr(Processes, "queue", noted)

    def work(processes):
        made, _ = streaming(processes.rank, lambda engine: ShardedEngine(engine, processes))
        engine = made.actor.engine.engine
        engine.at_once, collect = 2, engine.collect
        event = second_has_begun if processes.is_main else first_has_ended
        engine.collect = lambda wait: event.wait(60) and collect(wait)
        return played(made)

    assert in_processes(2, work) == [played(context())] * 2
    assert begun[1] == [7, 8]
    assert sorted(begun[0]) == [*range(7), *range(9, 15)]


def test_no_engine_is_waited_for_while_the_other_computes():
    made, _ = streaming(0)
    actor, patient = (getattr(made, role).engine for role in ROLES)
    calls = []  # whether it was waited for, and whether the other had requests

    def noting(engine, other):
        collect = engine.collect

        def noted(wait):
            calls.append((wait, bool(other.open)))
            return collect(wait)

        engine.collect = noted

    noting(actor, patient), noting(patient, actor)
    played(made)
    assert {(True, False), (False, True)} <= {*calls}
    assert (True, True) not in calls


class Reading(ScriptedEngine):
    """A scorer's engine that takes prompts up one by one, and notes what it is asked, and when."""

    streams = True

    def __init__(self, made: RolloutContext, fails: Callable[[str], bool] = lambda text: False):
        super().__init__(scores=self._read)
        self.made, self.fails = made, fails
        self.open: dict[int, tuple] = {}
        self.together: list[str] = []  # prompts that were asked for in one call, afterwards
        self.going: list[int] = []  # per prompt submitted, requests of the actor in progress

    def _read(self, prompt, choices):
        return [-float((sum(prompt) + token) % 7) for token in choices]

    def submit_choices(self, prompt, choices) -> int:
        self.going.append(len(self.made.actor.engine.open))
        self.open[len(self.going)] = prompt, choices
        return len(self.going)

    def collect(self, wait: bool) -> dict[int, list]:
        assert wait
        assert not self.made.actor.engine.open  # nobody waited for it before
        ticket, (prompt, choices) = self.open.popitem()
        if self.fails(self.made.chat.decode(prompt)):
            return {ticket: [Failure("timeout", "no answer")]}
        return {ticket: super().next_logprobs([prompt], [choices])}

    def next_logprobs(self, prompts, choices):
        self.together += map(self.made.chat.decode, prompts)
        return super().next_logprobs(prompts, choices)


def scored(made: RolloutContext, engine: ScriptedEngine) -> list:
    """Candidate groups of the first consultations, read ahead where the engine can."""
    scorer = Scorer(engine, made.chat.tokenizer)
    consultations = played(dataclasses.replace(made, scorer=scorer))
    firsts = [row[0] for row in consultations]
    groups = score_groups(scorer, list(zip(CASES, firsts, strict=True)))
    return [
        (group.case.case_id, group.number, group.turn, group.baseline, group.utilities.tolist())
        for of_case in groups
        for group in of_case
    ]


def afterwards() -> tuple[list, list]:
    """The groups and the prompts of a scorer that reads after the rollouts."""
    made = context()
    engine = Reading(made)
    return scored(made, engine), engine.together


@pytest.mark.parametrize("seed", range(6))
def test_candidate_groups_are_scored_while_dialogues_go_on(seed):
    made, _ = streaming(seed)
    engine, (groups, prompts) = Reading(made), afterwards()
    metered = MeteredEngine(engine)
    assert scored(made, metered) == groups != []
    assert not engine.together
    assert engine.going[0] > 1
    assert len(engine.going) == len(prompts)
    tokens = {tuple(prompt) for prompt in engine.prompts}
    assert metered.take_counts()["read"] == sum(map(len, tokens))


def test_what_the_scorer_failed_on_beside_the_dialogues_is_asked_for_again():
    made, _ = streaming(0)
    engine = Reading(made, fails=lambda text: "any 0 1?" in text)
    groups, prompts = afterwards()
    assert scored(made, engine) == groups
    assert sorted(engine.together) == sorted(text for text in prompts if "any 0 1?" in text) != []


def test_a_scorer_that_takes_turns_with_the_others_reads_afterwards():
    made, _ = streaming(0)
    engine = Reading(made)
    engine.in_turns = True
    groups, prompts = afterwards()
    assert scored(made, engine) == groups
    assert sorted(engine.together) == sorted(prompts)
    assert not engine.going


def test_processes_tell_each_other_what_they_read():
    def work(processes):
        made, _ = streaming(processes.rank, lambda engine: ShardedEngine(engine, processes))
        own = SimpleNamespace(engine=made.actor.engine.engine)
        engine = Reading(dataclasses.replace(made, actor=own))
        return scored(made, engine), engine.together

    groups, _ = afterwards()
    assert in_processes(2, work) == [(groups, [])] * 2


def failing(made: RolloutContext, question: str) -> None:
    """The patient fails on this question, however it is asked."""
    engine = made.patient.engine
    complete = engine._completion

    def refused(request, stream, sampling):
        if question in made.chat.decode(request.prompt):
            return Failure("timeout", "no answer")
        return complete(request, stream, sampling)

    engine._completion = refused


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("question", ["any 0 1?", "any 1 3?", "any 1 0?"])
def test_a_failed_answer_ends_the_dialogue_where_it_would_turn_by_turn(question, seed):
    """Though a candidate's answer may fail after its dialogue has gone on."""
    made, plain = streaming(seed)[0], context()
    failing(made, question), failing(plain, question)
    consultations = played(made)
    assert consultations == played(plain)
    assert "patient_failed" in {one.ending for row in consultations for one in row}


@pytest.mark.parametrize("seed", range(4))
def test_engines_that_take_turns_wait_until_much_is_to_do(seed):
    """The actor until as much waits for the patient; then the patient, until a quarter does."""
    made, _ = streaming(seed)
    engines = {role: getattr(made, role).engine for role in ROLES}
    turns = []  # where both have requests: the role that was collected, by the rule and in fact

    def noting(role, collect):
        def noted(wait):
            actor, patient = (len(engine.open) for engine in engines.values())
            if actor and patient:
                before = turns[-1][0] if turns else "actor"
                stays = "patient" if before == "patient" and patient >= actor / 4 else "actor"
                turns.append(("patient" if patient >= actor else stays, role))
            return collect(wait)

        return noted

    for role, engine in engines.items():
        engine.in_turns, engine.collect = True, noting(role, engine.collect)
    assert played(made) == played(context())
    assert [role for _, role in turns] == [expected for expected, _ in turns]
    assert {role for _, role in turns} == {*ROLES}


def test_a_patient_of_another_kind_is_played_turn_by_turn():
    made, _ = streaming(0)

    class Person:
        engine = made.patient.engine

        def answer(self, inquiries):
            return ["No cough."] * len(inquiries)

    plain = ScriptedEngine(made.actor.engine._reply)
    plain.streams = True
    made.actor.engine = plain
    played(dataclasses.replace(made, patient=Person()))
    assert not made.patient.engine.prompts
