"""How long two processes take whose engines have steps of 1 and 10 ms: a ratio, by their clocks."""

from threading import Condition

from helpers import Thread, in_processes, make_case, scripted_context

from pcqc.consultation import roll_out
from pcqc.engines.scripted import ScriptedEngine
from pcqc.engines.sharded import ShardedEngine

CASES = [make_case(number) for number in range(50)]


class Clocks:
    """Simulated seconds of several processes; the one that is furthest behind goes on."""

    def __init__(self, count: int):
        self.now, self.going = [0.0] * count, set(range(count))
        self.changed = Condition()

    def advance(self, rank: int, seconds: float) -> None:
        with self.changed:
            self.now[rank] += seconds
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self._next() == rank, timeout=60)

    def end(self, rank: int) -> None:
        with self.changed:
            self.going.discard(rank)
            self.changed.notify_all()

    def _next(self) -> int:
        return min(self.going, key=lambda rank: (self.now[rank], rank))


class Stepping(ScriptedEngine):
    """Finishes requests in steps that go on between calls.

    Args:
        engine: what it replies.
        clocks: whose `rank` it goes by.
        step: seconds.
        most: requests that a step finishes.
    """

    streams = True

    def __init__(self, engine, clocks, rank=0, *, step, most=1000):
        super().__init__(engine._reply)
        self.clocks, self.rank, self.step, self.most = clocks, rank, step, most
        self.open, self.count, self.ready = {}, 0, 0.0

    def submit(self, request, sampling):
        if not self.open:
            self.ready = self.clocks.now[self.rank] + self.step
        self.count += 1
        self.open[self.count] = request, sampling
        return self.count

    def collect(self, wait):
        left = self.ready - self.clocks.now[self.rank]
        if left > 1e-9 and not wait:
            return {}
        self.clocks.advance(self.rank, max(0.0, left))
        tickets = [*self.open][: self.most]
        done = {ticket: self.open.pop(ticket) for ticket in tickets}
        self.ready = self.clocks.now[self.rank] + self.step
        return {t: self.generate([request], sampling)[0] for t, (request, sampling) in done.items()}


def lengths(case_id: str, rollout: int, turn: int, k: int) -> str:
    """Dialogues of one to four turns, none of which asks the patient."""
    return "I wonder." if turn < (int(case_id[-1]) + rollout) % 4 else "Final Answer: A"


def test_a_process_that_is_ready_plays_what_another_has_not_begun(monkeypatch):
    """Steps of 1 and of 10 ms: of 400 dialogues the slow process had half, and now an eleventh.

    That is at best 5.5 times as fast, and less where the slow one ends with a dialogue of its own.
    """
    clocks, gather = Clocks(2), Thread.gather

    def ended(processes, value):
        clocks.end(processes.rank)
        return gather(processes, value)

    monkeypatch.setattr(Thread, "gather", ended)

    def seconds(at_once: int) -> tuple[float, list]:
        clocks.__init__(2)

        def work(processes):
            made, rank = scripted_context(lengths, CASES), processes.rank
            engine = Stepping(made.actor.engine, clocks, rank, step=(1e-3, 1e-2)[rank], most=10)
            engine.at_once, engine.processes = at_once, processes
            made.actor.engine = ShardedEngine(engine, processes)
            made.patient.engine = Stepping(made.patient.engine, Clocks(1), step=0.0)
            return roll_out(made, CASES, rollouts=8, seed=1, stage="test")

        first, second = in_processes(2, work)
        assert first == second
        return max(clocks.now), first

    (cut, before), (shared, after) = seconds(at_once=1000), seconds(at_once=10)
    assert before == after
    print(f"cut by rank / queue: {cut / shared:.1f}")
    assert 4 < cut / shared < 5.5
