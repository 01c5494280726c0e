"""Dialogues that each go on alone are those that are played turn by turn."""

import dataclasses
import random
from collections.abc import Sequence

import pytest
from helpers import make_case, scripted_context

from pcqc.consultation import RolloutContext, roll_out
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.engines.metered import MeteredEngine
from pcqc.engines.scripted import ScriptedEngine
from pcqc.engines.sharded import ShardedEngine
from pcqc.processes import Processes

CASES = [make_case(number) for number in range(5)]


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
        self.most[0] = max(self.most[0], len(self.open))
        return self.count

    def collect(self, wait: bool) -> dict[int, list[Completion | Failure]]:
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
    """The same roles on engines that stream; and how many requests were in progress at most."""
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


def test_what_the_engines_are_asked_is_the_same():
    made, _ = streaming(0)
    plain = context()
    played(made), played(plain)
    for role in ("actor", "patient"):
        assert sorted(getattr(made, role).engine.prompts) == sorted(
            getattr(plain, role).engine.prompts
        )


def test_streamed_or_not_the_same_tokens_are_counted():
    made, _ = streaming(0, wrap=MeteredEngine)
    plain = context()
    for role in (plain.actor, plain.patient):
        role.engine = MeteredEngine(role.engine)
    played(made), played(plain)
    for role in ("actor", "patient"):
        counts = getattr(made, role).engine.take_counts()
        assert counts == getattr(plain, role).engine.take_counts()
        assert min(counts.values()) > 0


class Second(Processes):
    """The second of two processes; what the first would send is computed here."""

    def gather(self, value):
        made, _ = streaming(9)
        whole = [one for row in played(made) for one in row]
        return [whole[: len(whole) - len(value)], value]


def test_processes_share_the_dialogues_out():
    made, most = streaming(3, wrap=lambda engine: ShardedEngine(engine, Second(1, 2)))
    assert played(made) == played(context())
    assert most[0] == 8  # of fifteen


def test_a_failed_answer_ends_its_own_dialogue_alone():
    made, _ = streaming(0)
    plain, engine = context(), made.patient.engine
    collect = engine.collect

    def failing(wait):
        return {
            ticket: [Failure("timeout", "no answer")]
            if "any 1 0?" in text(asked[ticket])
            else found
            for ticket, found in collect(wait).items()
        }

    asked, submit = {}, engine.submit

    def noting(request, sampling):
        ticket = submit(request, sampling)
        asked[ticket] = request
        return ticket

    def text(request):
        return made.chat.decode(request.prompt)

    engine.submit, engine.collect = noting, failing
    pairs = zip(
        (one for row in played(made) for one in row),
        (one for row in played(plain) for one in row),
        strict=True,
    )
    for mine, other in pairs:
        if len(other.turns) > 2:
            assert (mine.ending, len(mine.turns)) == ("patient_failed", 2)
        else:
            assert mine == other


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
