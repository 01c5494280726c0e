"""Draws the clinic's cases and writes its SFT conversations, each set from its own stream.

Sets share no case: a case with the options, complaint and facts of an earlier set's is drawn again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from clinic_env.world import World, draw_patient
from pcqc.cases.case import Case, write_cases
from pcqc.seeds import generator
from pcqc_base.errors import UserError
from pcqc_base.settings import Benchmark
from pcqc_base.system.files import write_jsonl
from pcqc_clinic.consultations import (
    best_exchanges,
    random_exchanges,
    recorded_conversation,
)
from pcqc_clinic.world import as_case

TRAINING = Benchmark("Training", "held_out", options=(4, 5, 6, 7, 8), recorded_facts=0.9)
TRIES_PER_CASE = 100


def draw_cases(
    world: World, seed: int, name: str, benchmark: Benchmark, before: Iterable[Case] = ()
) -> list[Case]:
    """Cases of a benchmark.

    Args:
        world: the patients are drawn from it.
        seed: the clinic's.
        name: the benchmark's.
        benchmark: what its cases are like, and how many there are.
        before: cases of the sets before it; it shares none with them.

    Raises:
        UserError: the world has too few different cases.
    """
    return _Sampler(world, seed, before).cases(name, benchmark, benchmark.cases)


def draw_conversations(
    world: World,
    seed: int,
    before: Iterable[Case],
    folder: Path,
    *,
    options: Sequence[int],
    conversations: int,
    questions: Sequence[int],
    asks: str,
    instruction: str,
) -> int:
    """Write SFT conversations, `sft.jsonl`, and their cases, `cases.jsonl`; their number.

    Args:
        world, seed, before: as of `draw_cases`.
        folder: where the files go.
        options: numbers of options of a case.
        conversations: how many.
        questions: numbers of questions of a conversation, drawn uniformly.
        asks: `random` or `best`, which questions they ask.
        instruction: the actor's system message, which opens them.
    """
    rng, rows = generator(seed, "sft conversations"), []

    def recorded(case: Case) -> bool:
        count = int(rng.choice(questions))
        if asks == "best":
            exchanges = best_exchanges(world, case, count)
        else:
            exchanges = random_exchanges(world, case, count, rng)
        messages = recorded_conversation(world, case, instruction, exchanges)
        if messages:
            rows.append({"case_id": case.case_id, "messages": messages})
        return messages is not None

    training = replace(TRAINING, options=tuple(options))
    cases = _Sampler(world, seed, before).cases("sft", training, conversations, recorded)
    write_jsonl(folder / "sft.jsonl", rows)
    write_cases(folder / "cases.jsonl", cases)
    return len(rows)


class _Sampler:
    """Draws sets that share no case."""

    def __init__(self, world: World, seed: int, before: Iterable[Case]):
        self.world, self.seed = world, seed
        self.seen = {_key(case) for case in before}

    def cases(
        self,
        split: str,
        benchmark: Benchmark,
        count: int,
        keep: Callable[[Case], bool] = lambda case: True,
    ) -> list[Case]:
        rng = generator(self.seed, "cases", split)
        rates = self.world.rates(benchmark.base_rates)
        numbers = [n for n in benchmark.options if n <= len(self.world.diseases)]
        drawn: list[Case] = []
        for _ in range(TRIES_PER_CASE * count + 1):
            if len(drawn) == count:
                return drawn
            options = int(rng.choice(numbers))
            patient = draw_patient(self.world, rng, options, rates)
            case = as_case(self.world, patient, f"{split}-{len(drawn):05d}", benchmark, rng)
            key = _key(case)
            if key not in self.seen and keep(case):
                self.seen.add(key)
                drawn.append(case)
        raise UserError(
            f"the clinic has too few different cases: {len(drawn)} of {count} drawn for '{split}'; "
            "ask for fewer, or enlarge clinic.diseases"
        )


def _key(case: Case) -> tuple[str, ...]:
    """What makes a case another one: options, complaint and facts."""
    return (case.initial, *case.options.values(), *case.facts)
