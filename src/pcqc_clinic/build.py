"""Draws the clinic's cases and SFT conversations, each set from its own stream.

Sets share no case: a case with the options, complaint and facts of an earlier set's is drawn again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clinic_env.world import World, draw_patient
from pcqc.cases import prompts
from pcqc.cases.case import Case
from pcqc.seeds import generator
from pcqc_base.errors import UserError
from pcqc_base.settings import Benchmark
from pcqc_clinic.consultations import (
    best_exchanges,
    random_exchanges,
    recorded_conversation,
)
from pcqc_clinic.world import as_case

TRAINING = Benchmark("Training", "held_out", options=(4, 5, 6, 7, 8), recorded_facts=0.9)
TRIES_PER_CASE = 100
Key = tuple[str, ...]  # what makes a case another one: what the doctor is told, and the facts


def dialogue(case: Case, instruction: str | None) -> dict[str, Any]:
    """A row of the raw file of a set of cases, in the format of ATPO's dialogue files.

    Its conversion (`data_prep.atpo_dialogues`) has every field of the case, and its id where the
    file has the name of the case's set.

    Args:
        case: with an id `<set>-<number>`.
        instruction: the actor's system message; None where the study's protocol gives it.
    """
    messages = {"system": instruction} if instruction else {}
    messages["user"] = prompts.actor_prompt(case.public)
    return {
        "data_source": case.source,
        "index": case.case_id.rpartition("-")[2],
        "prompt": [{"role": role, "content": text} for role, text in messages.items()],
        "ground_truth": {"answer": case.answer, "answer_info": case.options[case.answer]},
        "extra_info": {"atomic_facts": list(case.facts)},
    }


def key_of_dialogue(row: Mapping[str, Any]) -> Key:
    """The key of the case of a raw file's row."""
    return (row["prompt"][-1]["content"], *row["extra_info"]["atomic_facts"])


def key_of_case(case: Case) -> Key:
    """The key of a case."""
    return (prompts.actor_prompt(case.public), *case.facts)


def draw_cases(
    world: World, seed: int, name: str, benchmark: Benchmark, before: Iterable[Key] = ()
) -> list[Case]:
    """Cases of a benchmark.

    Args:
        world: the patients are drawn from it.
        seed: the clinic's.
        name: the benchmark's.
        benchmark: what its cases are like, and how many there are.
        before: keys of the cases of the sets before it; it shares none with them.

    Raises:
        UserError: the world has too few different cases.
    """
    return _Sampler(world, seed, before).cases(name, benchmark, benchmark.cases)


def draw_conversations(
    world: World,
    seed: int,
    before: Iterable[Key],
    *,
    options: Sequence[int],
    conversations: int,
    questions: Sequence[int],
    asks: str,
    instruction: str,
) -> tuple[list[list[dict[str, str]]], list[Case]]:
    """SFT conversations, messages each, and their cases.

    Args:
        world, seed, before: as of `draw_cases`.
        options: numbers of options of a case.
        conversations: how many.
        questions: numbers of questions of a conversation, drawn uniformly.
        asks: `random` or `best`, which questions they ask.
        instruction: the actor's system message, which opens them.
    """
    rng, held = generator(seed, "sft conversations"), []

    def recorded(case: Case) -> bool:
        count = int(rng.choice(questions))
        if asks == "best":
            exchanges = best_exchanges(world, case, count)
        else:
            exchanges = random_exchanges(world, case, count, rng)
        messages = recorded_conversation(world, case, instruction, exchanges)
        if messages:
            held.append(messages)
        return messages is not None

    training = replace(TRAINING, options=tuple(options))
    return held, _Sampler(world, seed, before).cases("sft", training, conversations, recorded)


class _Sampler:
    """Draws sets that share no case."""

    def __init__(self, world: World, seed: int, before: Iterable[Key]):
        self.world, self.seed, self.seen = world, seed, set(before)

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
            key = key_of_case(case)
            if key not in self.seen and keep(case):
                self.seen.add(key)
                drawn.append(case)
        raise UserError(
            f"the clinic has too few different cases: {len(drawn)} of {count} drawn for '{split}'; "
            "ask for fewer, or enlarge clinic.diseases"
        )
