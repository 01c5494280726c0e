"""Draws the clinic's cases and writes its SFT conversations, each split from its own stream."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from clinic_env.world import World, draw_patient
from pcqc.cases.case import Case, write_cases
from pcqc.errors import UserError
from pcqc.seeds import generator
from pcqc.settings import Benchmark, Clinic
from pcqc.system.files import write_jsonl
from pcqc_clinic.consultations import (
    best_exchanges,
    random_exchanges,
    recorded_conversation,
)
from pcqc_clinic.world import as_case, make_world, save_world

TRAINING = Benchmark("Training", "held_out", options=(4, 5, 6, 7, 8), recorded_facts=0.9)
TRIES_PER_CASE = 100


def build_clinic(
    clinic: Clinic, benchmarks: Mapping[str, Benchmark], instruction: str, folder: Path
) -> dict[str, int]:
    """Write world, training cases, benchmarks, and SFT conversations.

    Splits share no case: a case with the options, complaint and facts of an earlier one is drawn
    again.

    Args:
        clinic: sizes and seed.
        benchmarks: by name; each is written as `<name>.jsonl`.
        instruction: the actor's system message, which opens the SFT conversations.
        folder: where the files go.

    Returns:
        Number of rows of each file.

    Raises:
        UserError: the world has too few different cases.
    """
    world = make_world(clinic)
    save_world(world, folder / "world.json")
    sampler = _Sampler(world, clinic.seed)
    training = replace(TRAINING, options=clinic.training_options)
    splits = {"train": (training, clinic.training_cases)}
    splits |= {name: (benchmark, benchmark.cases) for name, benchmark in benchmarks.items()}
    rows = {}
    for split, (benchmark, count) in splits.items():
        cases = sampler.cases(split, benchmark, count)
        write_cases(folder / f"{split}.jsonl", cases)
        rows[f"{split}.jsonl"] = len(cases)
    rng, conversations = generator(clinic.seed, "sft conversations"), []

    def recorded(case: Case) -> bool:
        questions = int(rng.choice(clinic.sft_questions))
        if clinic.sft_asks == "best":
            exchanges = best_exchanges(world, case, questions)
        else:
            exchanges = random_exchanges(world, case, questions, rng)
        messages = recorded_conversation(world, case, instruction, exchanges)
        if messages:
            conversations.append({"case_id": case.case_id, "messages": messages})
        return messages is not None

    sampler.cases("sft", training, clinic.sft_conversations, recorded)
    write_jsonl(folder / "sft.jsonl", conversations)
    rows["sft.jsonl"] = len(conversations)
    return rows


class _Sampler:
    """Draws splits that share no case."""

    def __init__(self, world: World, seed: int):
        self.world, self.seed = world, seed
        self.seen: set[tuple] = set()

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
            key = (case.initial, *case.options.values(), *case.facts)
            if key not in self.seen and keep(case):
                self.seen.add(key)
                drawn.append(case)
        raise UserError(
            f"the clinic has too few different cases: {len(drawn)} of {count} drawn for '{split}'; "
            "ask for fewer, or enlarge clinic.diseases"
        )
