"""Draws the clinic's cases and writes its SFT conversations, each split from its own stream."""

from collections.abc import Callable

from pcqc.cases.case import Case, write_cases
from pcqc.clinic.consultations import (
    best_exchanges,
    random_exchanges,
    recorded_conversation,
)
from pcqc.clinic.world import World, as_case, draw_patient, make_world
from pcqc.errors import UserError
from pcqc.study import Benchmark, Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import sha256_file, write_json, write_jsonl
from pcqc.system.seeds import generator

TRAINING = Benchmark("Training", "held_out", options=(4, 5, 6, 7, 8), recorded_facts=0.9)
TRIES_PER_CASE = 100


def build_clinic(study: Study) -> None:
    """Write world, training cases, benchmarks, SFT conversations, and their manifest.

    Splits share no case: one with the options, complaint and facts of an earlier one, as worded, is
    drawn again.

    Raises:
        UserError: too few different cases, or not the files that were made of the same before.
    """
    paths, clinic, result = Paths.of(study), study.clinic, job_output(study, "clinic")
    before = result.begin(resumable=True)
    world = make_world(clinic)
    world.save(paths.world)
    sampler = _Sampler(world, clinic.seed)
    rows = {}
    training = sampler.cases("train", TRAINING, clinic.training_cases)
    write_cases(paths.train_cases, training)
    rows["train.jsonl"] = len(training)
    for name, benchmark in study.benchmarks.items():
        drawn = sampler.cases(name, benchmark, benchmark.cases)
        write_cases(paths.cases(name), drawn)
        rows[f"{name}.jsonl"] = len(drawn)
    rng, conversations = generator(clinic.seed, "sft conversations"), []

    def recorded(case: Case) -> bool:
        questions = int(rng.choice(clinic.sft_questions))
        if clinic.sft_asks == "best":
            exchanges = best_exchanges(world, case, questions)
        else:
            exchanges = random_exchanges(world, case, questions, rng)
        messages = recorded_conversation(world, case, study.protocol.instruction, exchanges)
        if messages:
            conversations.append({"case_id": case.case_id, "messages": messages})
        return messages is not None

    sampler.cases("sft", TRAINING, clinic.sft_conversations, recorded)
    write_jsonl(paths.conversations, conversations)
    rows["sft.jsonl"] = len(conversations)
    files = {n: {"rows": r, "sha256": sha256_file(paths.data / n)} for n, r in rows.items()}
    write_json(paths.data / "manifest.json", {"files": files})
    names = ["world.json", *rows, "manifest.json"]
    for name, digest in (before.outputs or {}).items():
        if sha256_file(paths.data / name) != digest:
            raise UserError(
                f"{paths.data / name}: the same settings and modules make another file than before "
                f"(another version of numpy?); move {paths.data} away and run the workflow again "
                "if the study is to begin anew"
            )
    result.finish(names)


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
