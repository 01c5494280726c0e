"""Reading all option labels in one pass beside one pass for each label.

    python -m benchmarks.label_scoring [--study clinic] [--cases 128] [--rounds 5]

The scorer's prompts on the study's cases. Naively, every label is appended to the prompt and its
probability read off a pass over both: in vLLM by `prompt_logprobs`, in transformers by a forward
pass in batches. Caches are empty before each round. Needs the study's base model: `make results`,
or `pcqc clinic` and `pretrain`. Prints JSON; exits with 1 if a bound is missed.
"""

import argparse
import sys
from collections.abc import Sequence

import torch
from vllm import SamplingParams

from benchmarks.measure import Finding, Quartiles, interleaved, ratios, report
from benchmarks.rollouts import on_vllm
from pcqc.cases.case import read_cases
from pcqc.engines.base import Engine
from pcqc.jobs.setup import make_scorer
from pcqc.roles import Scorer
from pcqc.study import load_study
from pcqc.study.paths import Paths
from pcqc.system.determinism import single_threaded

LEAST = 3.0
BATCH = 64  # sequences in a naive forward pass


def questions(scorer: Scorer, cases: Sequence) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts and label tokens of the cases, as the scorer puts them to its engine."""
    asked = {}

    class Asked:
        def next_logprobs(self, prompts, choices):
            asked["all"] = (list(prompts), list(choices))
            return [[0.0] * len(ids) for ids in choices]

    Scorer(Asked(), scorer.encoder.tokenizer).probabilities([(case.public, ()) for case in cases])
    return asked["all"]


def by_prompt_logprobs(engine, prompts, choices) -> list[list[float]]:
    """One pass of vLLM for each label."""
    rows = [[*p, token] for p, ids in zip(prompts, choices, strict=True) for token in ids]
    parameters = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False)
    inputs = [{"prompt_token_ids": row} for row in rows]
    outputs = engine.llm.generate(inputs, parameters, use_tqdm=False)
    flat = iter([o.prompt_logprobs[-1][o.prompt_token_ids[-1]].logprob for o in outputs])
    return [[next(flat) for _ in ids] for ids in choices]


@torch.inference_mode()
def by_forward_passes(engine, prompts, choices) -> list[list[float]]:
    """One pass of the model for each label, in padded batches."""
    rows = [[*p, token] for p, ids in zip(prompts, choices, strict=True) for token in ids]
    found = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        width = max(map(len, part))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in part])
        logprobs = torch.log_softmax(engine.model(input_ids=ids).logits, -1)
        found += [float(logprobs[i, len(row) - 2, row[-1]]) for i, row in enumerate(part)]
    flat = iter(found)
    return [[next(flat) for _ in ids] for ids in choices]


def compare(name: str, engine: Engine, naive, prompts, choices, rounds: int) -> list[Finding]:
    """Both ways on one engine, and how far apart their numbers are."""
    results = {}

    def one_pass() -> None:
        engine.reset_cache()
        results["one"] = engine.next_logprobs(prompts, choices)

    def one_pass_each() -> None:
        engine.reset_cache()
        results["each"] = naive(engine, prompts, choices)

    seconds = interleaved({"one": one_pass, "each": one_pass_each}, rounds)
    gap = max(
        abs(a - b)
        for one, each in zip(results["one"], results["each"], strict=True)
        for a, b in zip(one, each, strict=True)
    )
    rate = Quartiles.of([len(prompts) / s for s in seconds["one"]])
    gain = ratios(seconds["each"], seconds["one"])
    return [
        Finding(f"{name}: all labels in one pass", rate, "prompts a second"),
        Finding(f"{name}: over one pass for each label", gain, "times", least=LEAST),
        Finding(f"{name}: largest difference of a log-probability", gap, "nats", most=1e-4),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="clinic", help="whose scorer and cases are used")
    parser.add_argument("--cases", type=int, default=128, help="scored at their initial state")
    parser.add_argument("--rounds", type=int, default=5, help="that count")
    arguments = parser.parse_args()
    single_threaded()
    study = load_study(arguments.study)
    cases = read_cases(Paths.of(study).train_cases)[: arguments.cases]
    scorer = make_scorer(study)
    asked = questions(scorer, cases)
    ways = {
        "vLLM": (make_scorer(on_vllm(arguments.study)).engine, by_prompt_logprobs),
        "transformers": (scorer.engine, by_forward_passes),
    }
    findings = []
    for name, (engine, naive) in ways.items():
        findings += compare(name, engine, naive, *asked, arguments.rounds)
    labels = sum(map(len, asked[1])) / len(asked[1])
    return report(findings, labels_per_prompt=labels)


if __name__ == "__main__":
    sys.exit(main())
