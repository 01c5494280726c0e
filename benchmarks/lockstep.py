"""Rollouts in lockstep beside dialogues that each go on alone: a discrete-event simulation.

    python -m benchmarks.lockstep [--updates N]

Nothing is generated. Engines with continuous batching serve requests of drawn lengths: a step gives
every running sequence a token and takes longer the more of them run. In lockstep, as with the
transformers engine, all dialogues of a turn wait for the longest reply, then for the longest
answer. Speeds are those of an H800 that reads Qwen3-8B's weights and caches from memory; lengths
have the means and limits of `paper`. Both are assumptions, so the ratios say what to expect and
prove nothing.
"""

import argparse
import heapq
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import Finding, Quartiles, ratios, report

# Reply and answer of a response; an answer of 0 tokens was not asked for.
Response = tuple[int, int]
# Per turn its responses, the executed one first.
Dialogue = Sequence[Sequence[Response]]


@dataclass(frozen=True)
class Speed:
    """Of an engine.

    Attributes:
        slots: sequences that run at once.
        step: seconds of a step, whoever runs.
        each: more for each running sequence.
        start: seconds in which it reads a prompt and writes nothing.
    """

    slots: int
    step: float
    each: float = 0.0
    start: float = 0.0


# Weights of 15.3 GiB at 3.35 TB/s and launches; 1,000 tokens of cache and 16 GFLOP a sequence;
# prompts of 25 new tokens. The patient spans eight devices, and reads 360 tokens a request.
ACTOR = Speed(44, step=7e-3, each=8e-5, start=1e-3)
PATIENT = Speed(256, step=3e-3, each=1e-5, start=2e-3)
ENGINES = 8


class Engine:
    """Requests in the order in which they came, as many at once as there are slots.

    Attributes:
        full: seconds that its tokens and prompts would take in full batches.
        beside: engines on the same devices, at most one of them on each.
    """

    def __init__(self, speed: Speed):
        self.speed, self.full = speed, 0.0
        self.waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.running: list[tuple[float, int, Callable[[], None]]] = []
        self.written = self.now = 0.0  # tokens of a sequence that ran from the beginning; seconds
        self.count = 0
        self.beside: list[Engine] = []

    def add(self, tokens: int, now: float, then: Callable[[], None]) -> None:
        """A request; `then` is called when its last token is written."""
        self.now = max(self.now, now)
        self.waiting.append((tokens, then))
        speed = self.speed
        self.full += speed.start + tokens * (speed.step / speed.slots + speed.each)

    def admit(self) -> None:
        """Fill free slots; reading a prompt holds all others up."""
        while self.waiting and len(self.running) < self.speed.slots:
            tokens, then = self.waiting.popleft()
            self.now += self.speed.start
            self.count += 1
            heapq.heappush(self.running, (self.written + tokens, self.count, then))

    @property
    def step(self) -> float:
        """Seconds of a step now, by itself; none where nothing runs."""
        return self.speed.step + self.speed.each * len(self.running) if self.running else 0.0

    @property
    def pace(self) -> float:
        """Seconds from step to step: engines on the same devices take turns."""
        return self.step + max((other.step for other in self.beside), default=0.0)

    @property
    def next_end(self) -> float:
        """When the next sequence ends, if nothing else comes."""
        if not self.running:
            return float("inf")
        return self.now + (self.running[0][0] - self.written) * self.pace

    def go_on(self, until: float, pace: float) -> list[Callable[[], None]]:
        """Write until then at a pace; what to call for the sequences that end."""
        if until > self.now:
            self.written += (until - self.now) / pace if self.running else 0.0
            self.now = until
        ended = []
        while self.running and self.running[0][0] <= self.written + 1e-9:
            ended.append(heapq.heappop(self.running)[2])
        return ended


@dataclass(frozen=True)
class Played:
    """Seconds of the rollouts, and the share of them that full batches would have taken."""

    seconds: float
    full_batches: float


class Rollouts:
    """Dialogues over the engines of one node.

    Args:
        dialogues: dealt out to the actor's engines in turn.
        actors: engines of the actor.
        patient: that all share.
        free: each dialogue goes on alone; else in lockstep.
    """

    def __init__(
        self, dialogues: Sequence[Dialogue], actors: Sequence[Speed], patient: Speed, free: bool
    ):
        self.dialogues, self.free, self.now = dialogues, free, 0.0
        self.actors, self.patient = [Engine(speed) for speed in actors], Engine(patient)
        self.patient.beside = self.actors
        for actor in self.actors:
            actor.beside = [self.patient]
        self.open = 0  # requests of the phase that are not finished
        self.after: list[Callable[[], None]] = []  # what lockstep holds back

    def play(self) -> Played:
        """Until the last request is finished."""
        for number in range(len(self.dialogues)):
            self._reply(number, 0)
        engines = [*self.actors, self.patient]
        while True:
            for engine in engines:
                engine.admit()
            end = min(engine.next_end for engine in engines)
            if end == float("inf"):
                break
            self.now = end
            # All paces as they were: a sequence that ends changes them.
            paces = [engine.pace for engine in engines]
            every = [e.go_on(end, pace) for e, pace in zip(engines, paces, strict=True)]
            for then in [then for ended in every for then in ended]:
                then()
        actors = sum(engine.full for engine in self.actors) / len(self.actors)
        # In turn on the same devices, so that what each would take alone adds up.
        return Played(self.now, (actors + self.patient.full) / self.now)

    def _reply(self, number: int, turn: int) -> None:
        if turn == len(self.dialogues[number]):
            return
        engine = self.actors[number % len(self.actors)]
        for k, (reply, answer) in enumerate(self.dialogues[number][turn]):
            go_on = self._then(number, turn, answer, executed=k == 0)
            self._request(engine, reply, go_on)

    def _then(self, number: int, turn: int, answer: int, executed: bool) -> Callable[[], None]:
        """After a reply its answer, and after the executed one's answer the next turn."""

        def next_turn() -> None:
            if executed:
                self._reply(number, turn + 1)

        if not answer:
            return next_turn
        return lambda: self._request(self.patient, answer, next_turn)

    def _request(self, engine: Engine, tokens: int, then: Callable[[], None]) -> None:
        self.open += 1
        engine.add(tokens, self.now, lambda: self._finished(then))

    def _finished(self, then: Callable[[], None]) -> None:
        self.open -= 1
        if self.free:
            then()
            return
        self.after.append(then)
        if not self.open:
            held, self.after = self.after, []
            for one in held:
                one()


def drawn(rng: np.random.Generator, dialogues: int, group: int, candidates: int) -> list[Dialogue]:
    """Dialogues of one update: 2 inquiries on average, replies of 130 tokens, answers of 25.

    Lengths are log-normal with a standard deviation as large as the mean, cut at the limits; every
    `group`-th dialogue has the candidates.
    """

    def lengths(mean: float, most: int, count: int) -> list[int]:
        spread = np.sqrt(np.log(2))
        values = rng.lognormal(np.log(mean) - spread**2 / 2, spread, count)
        return [int(n) for n in np.clip(values, 1, most)]

    found = []
    for number in range(dialogues):
        asked, width = min(rng.geometric(1 / 3) - 1, 9), 1 if number % group else candidates
        turns = [
            list(zip(lengths(130, 512, width), lengths(25, 256, width), strict=True))
            for _ in range(asked)
        ]
        found.append([*turns, [(lengths(130, 512, 1)[0], 0)]])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.lockstep", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--updates", type=int, default=8, help="updates that are drawn")
    updates = parser.parse_args(arguments).updates
    findings = []
    for name, group, candidates in (("pcqc", 4, 4), ("grpo", 32, 1)):
        played: dict[bool, list[Played]] = {True: [], False: []}
        for update in range(updates):
            dialogues = drawn(np.random.default_rng(update), 128 * group, group, candidates)
            for free in played:
                one = Rollouts(dialogues, [ACTOR] * ENGINES, PATIENT, free)
                played[free].append(one.play())
        seconds = {free: [p.seconds for p in runs] for free, runs in played.items()}
        full = {free: Quartiles.of([p.full_batches for p in runs]) for free, runs in played.items()}
        findings += [
            Finding(
                f"{name}: lockstep by free running", ratios(seconds[False], seconds[True]), "times"
            ),
            Finding(f"{name}: full batches in lockstep", full[False], "of the time"),
            Finding(f"{name}: full batches, free", full[True], "of the time"),
        ]
    return report(findings, simulated=True)


if __name__ == "__main__":
    sys.exit(main())
