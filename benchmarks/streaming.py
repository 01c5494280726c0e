"""Dialogues that each go on alone beside the same ones in lockstep, and beside bare vLLM.

    python -m benchmarks.streaming [--cases 4] [--rounds 3]

Actor, patient and scorer are small models with random weights on vLLM in this process. Their
replies have stated lengths with a long tail, and dialogues several turns (`talkers.py`). Bare vLLM
gets the same requests all at once, as if none had to wait for another's reply: what the engine can
do at most. Consultations must be the same, token for token. Seconds are those of this process on
its processor, which other work disturbs less. Prints JSON; exits with 1 if a bound is missed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Finding, Quartiles, ratios, report
from benchmarks.rollouts import bare, together
from benchmarks.talkers import Lengths, talker
from benchmarks.update import Work, make_work
from benchmarks.workers import Recorded
from pcqc.consultation import RolloutContext, roll_out
from pcqc.engines.vllm import VllmEngine
from pcqc.methods.question_groups import score_groups
from pcqc.models.folder import save_model
from pcqc.roles import Actor, Patient, Scorer
from pcqc.study import Decoding, load_study
from pcqc.system.determinism import single_threaded

LEAST_OF_LOCKSTEP, LEAST_OF_BARE = 1.5, 0.85
ROLLOUTS, CANDIDATES, SLOTS = 4, 4, 8
TURNS, FINAL = 8, 0.2  # at most, and the chance of a diagnosis at each
REPLIES, ANSWERS = Lengths(20, 200, 0.15), Lengths(6, 40, 0.1)
LIMITS = {"actor": 512, "patient": 256}
Roles = tuple[RolloutContext, Scorer]


def make_roles(work: Work, folder: Path, width: int) -> Roles:
    """All roles on vLLM, from models that are written below the folder."""
    engines, tokenizer = {}, work.chat.tokenizer
    sizes = replace(load_study("clinic").scratch_model, width=width, hidden=2 * width)
    for seed, role in enumerate(("actor", "patient", "scorer")):
        lengths = ANSWERS if role == "patient" else REPLIES
        model = talker(replace(sizes, seed=seed), tokenizer, lengths, FINAL)
        model.config.max_position_embeddings = 8192
        save_model(folder / role, model, tokenizer)
        engines[role] = VllmEngine(folder / role, cache_tokens=65536, batch_size=SLOTS)
    decoding = {role: Decoding(1.0, 1.0, most) for role, most in LIMITS.items()}
    protocol = replace(
        work.protocol, max_turns=TURNS, response_tokens=7000, action_tokens=LIMITS["actor"]
    )
    actor = Actor(engines["actor"], work.chat, decoding["actor"])
    patient = Patient(engines["patient"], work.chat, decoding["patient"])
    context = RolloutContext(actor, patient, work.chat, protocol)
    return context, Scorer(engines["scorer"], tokenizer)


def processor_seconds(call: Callable[[], object]) -> float:
    """Seconds of this process on its processor that a call takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


class Compared:
    """The ways of playing the same consultations, from empty caches."""

    def __init__(self, work: Work, roles: Roles):
        self.work, (self.context, self.scorer) = work, roles
        self.engines = {"actor": self.context.actor.engine, "patient": self.context.patient.engine}
        self.played: dict[str, list] = {}
        self.recorded = {role: Recorded(engine) for role, engine in self.engines.items()}
        self.context.actor.engine, self.context.patient.engine = self.recorded.values()
        self.play("lockstep")
        self.calls = {role: together(one.calls) for role, one in self.recorded.items()}
        self.tokens = {role: one.written for role, one in self.recorded.items()}
        self.context.actor.engine, self.context.patient.engine = self.engines.values()

    def play(self, way: str) -> None:
        """Roll out, `free` or in `lockstep`."""
        for engine in (self.context.actor.engine, self.context.patient.engine):
            engine.reset_cache()
            engine.streams = way == "free"
        shape = {"rollouts": ROLLOUTS, "candidates": CANDIDATES, "seed": 1, "stage": "speed"}
        self.played[way] = roll_out(self.context, self.work.cases, **shape)

    def bare(self) -> None:
        """The same requests, without our code and without waiting."""
        for role, engine in self.engines.items():
            engine.reset_cache()
            bare(engine, self.calls[role])

    def score(self) -> None:
        """What the scorer does in an update with these consultations."""
        self.scorer.engine.reset_cache()
        firsts = [row[0] for row in self.played["free"]]
        score_groups(self.scorer, list(zip(self.work.cases, firsts, strict=True)))

    def round(self) -> dict[str, float]:
        """Seconds of each way, one after the other.

        Raises:
            RuntimeError: the ways do not give the same consultations.
        """
        ways = {
            "lockstep": lambda: self.play("lockstep"),
            "free": lambda: self.play("free"),
            "bare": self.bare,
            "score": self.score,
        }
        seconds = {name: processor_seconds(call) for name, call in ways.items()}
        if self.played["free"] != self.played["lockstep"]:
            raise RuntimeError("the consultations differ")
        return seconds


def findings(rounds: list[dict[str, float]]) -> list[Finding]:
    """The table's rows."""
    lockstep, free, alone, score = (
        [seconds[name] for seconds in rounds] for name in ("lockstep", "free", "bare", "score")
    )
    whole = [a + b for a, b in zip(free, score, strict=True)]
    shares = Quartiles.of([100 * a / b for a, b in zip(score, whole, strict=True)])
    return [
        Finding(
            "lockstep by free running", ratios(lockstep, free), "times", least=LEAST_OF_LOCKSTEP
        ),
        Finding(
            "bare vLLM, all at once, by free running", ratios(alone, free), "times", LEAST_OF_BARE
        ),
        Finding("scoring, of free running and scoring", shares, "%"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=4, help="rolled out side by side")
    parser.add_argument("--width", type=int, default=64, help="of the models")
    parser.add_argument("--rounds", type=int, default=3, help="that count")
    arguments = parser.parse_args()
    single_threaded()
    work = make_work(cases=arguments.cases, group=1)
    with tempfile.TemporaryDirectory() as folder:
        compared = Compared(work, make_roles(work, Path(folder), arguments.width))
        rounds = [compared.round() for _ in range(arguments.rounds)]
    spread = {"replies": REPLIES.spread, "answers": ANSWERS.spread}
    details = {"tokens": compared.tokens, "spread_by_mean": spread, "seconds": rounds}
    return report(findings(rounds), **details)


if __name__ == "__main__":
    sys.exit(main())
