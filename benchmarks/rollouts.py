"""Rollouts through the vLLM engine beside bare vLLM and beside transformers' `generate`.

    python -m benchmarks.rollouts [--study clinic] [--cases 64] [--rounds 5]

Whole consultations are rolled out: prompts built, actions drawn, questions answered, words read.
Every request is recorded and put again to the same vLLM without our code around it, all at once,
and to `generate`, turn by turn, which draws its own tokens and is compared by tokens a second.
Caches are empty before each round. Needs the study's models and cases: `make results`, or its
rules up to `sft` and `prepare`. Prints JSON; exits with 1 if a bound is missed.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import torch

from benchmarks.measure import Finding, Quartiles, interleaved, ratios, report
from pcqc.cases.case import read_cases
from pcqc.consultation import RolloutContext, roll_out
from pcqc.determinism import single_threaded
from pcqc.engines.base import Request, Sampling, WrappedEngine
from pcqc.jobs.make_roles import make_context, role_weights
from pcqc_gpu.engines.vllm import VllmEngine, sampling_params
from pcqc_study.graph import Jobs
from pcqc_study.run_job import rollout_task
from pcqc_study.study_file import load_study

LEAST_OF_BARE = 0.85
ROLLOUTS, CANDIDATES = 4, 4
Call = tuple[Sequence[Request], Sampling]
BARE = "bare vLLM: all of these off"
# What `sampling_params` sets and vLLM can do without, and what stands in its place.
SET: dict[str, dict[str, object]] = {
    "no seed of each request": {"seed": None},
    "no log-probabilities": {"logprobs": None},
    "no stop tokens": {"stop_token_ids": []},
    "the model's own end counts": {"ignore_eos": False},
}
ALL_OFF = {name: value for off in SET.values() for name, value in off.items()}


class Recorded(WrappedEngine):
    """An engine that keeps its calls, and is called turn by turn.

    Attributes:
        calls: requests and sampling of each call.
        tokens: that it generated.
    """

    def __init__(self, engine: VllmEngine):
        super().__init__(engine)
        self.streams = False  # so that `generate` gets batches
        self.calls: list[Call] = []
        self.tokens = 0

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list:
        """See `Engine.generate`."""
        groups = self.engine.generate(requests, sampling)
        if requests:
            self.calls.append((requests, sampling))
        self.tokens += sum(len(completion.tokens) for group in groups for completion in group)
        return groups


def bare(engine: VllmEngine, calls: Sequence[Call], off: Mapping[str, object] = {}) -> int:
    """All requests of the calls at once, as one writes them for vLLM itself.

    Args:
        engine: whose vLLM it is.
        calls: requests, all with the sampling of the first call.
        off: parameters of vLLM that are set otherwise.

    Returns:
        The number of new tokens.
    """
    pairs = [(r.prompt, stream) for requests, _ in calls for r in requests for stream in r.streams]
    parameters = [sampling_params(calls[0][1], stream) for _, stream in pairs]
    for sampling, name in product(parameters, off):
        setattr(sampling, name, off[name])
    prompts = [{"prompt_token_ids": list(prompt)} for prompt, _ in pairs]
    outputs = engine.llm.generate(prompts, parameters, use_tqdm=False)
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def streamed(engine: VllmEngine, requests: Sequence[Request], sampling: Sampling) -> int:
    """New tokens of requests that are submitted one by one, as consultations do."""
    waiting = {engine.submit(request, sampling) for request in requests}
    tokens = 0
    while waiting:
        done = engine.collect(wait=True)
        waiting -= set(done)
        tokens += _tokens(done.values())
    return tokens


def rates(
    engine: VllmEngine, requests: Sequence[Request], sampling: Sampling, rounds: int
) -> list[dict]:
    """Tokens a second of the same requests, through our engine and past it, and beside bare vLLM's.

    Args:
        engine: its cache is empty before each call.
        requests: all at once.
        sampling: of each.
        rounds: that count, in each of which all are called once.
    """
    calls: dict[str, Callable[[], int]] = {
        "our engine": lambda: _tokens(engine.generate(requests, sampling)),
        "our engine, requests submitted": lambda: streamed(engine, requests, sampling),
    }
    ways: Mapping[str, Mapping] = {"our requests to vLLM itself": {}, **SET, BARE: ALL_OFF}
    for name, off in ways.items():
        calls[name] = partial(bare, engine, [(requests, sampling)], off)
    tokens: dict[str, int] = {}

    def counted(name: str) -> None:
        engine.reset_cache()
        tokens[name] = calls[name]()

    seconds = interleaved({name: partial(counted, name) for name in calls}, rounds)
    each = {name: [s / tokens[name] for s in seconds[name]] for name in calls}
    return [
        {
            "way": name,
            "tokens a second": 1 / Quartiles.of(each[name]).median,
            "of bare vLLM's (%)": 100 * ratios(each[BARE], each[name]).median,
        }
        for name in calls
    ]


def _tokens(groups) -> int:
    return sum(len(completion.tokens) for group in groups for completion in group)


@torch.inference_mode()
def plain(model, calls: Sequence[Call]) -> int:
    """The same prompts through `generate`, padded on the left; the number of new tokens."""
    tokens = 0
    for requests, sampling in calls:
        rows = [list(r.prompt) for r in requests for _ in r.streams]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        drawn = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=0,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=list(sampling.stop),
            pad_token_id=sampling.stop[0],
        )[:, width:]
        for row in drawn.tolist():
            ends = [i for i, token in enumerate(row) if token in sampling.stop]
            tokens += ends[0] + 1 if ends else len(row)
    return tokens


def measure(context: RolloutContext, models: dict, cases: Sequence, rounds: int) -> list[Finding]:
    """What vLLM through our engine, bare vLLM and `models` take for the same requests."""
    engines = {"actor": context.actor.engine, "patient": context.patient.engine}
    recorded = {role: Recorded(engine) for role, engine in engines.items()}

    def consult() -> None:
        roll_out(context, cases, rollouts=ROLLOUTS, candidates=CANDIDATES, seed=1, stage="speed")

    context.actor.engine, context.patient.engine = recorded.values()
    consult()
    context.actor.engine, context.patient.engine = engines.values()
    drawn = {}

    def ours() -> None:
        for engine in engines.values():
            engine.reset_cache()
        consult()

    def bare_vllm() -> None:
        for role, engine in engines.items():
            engine.reset_cache()
            bare(engine, recorded[role].calls)

    def generate() -> None:
        drawn["tokens"] = sum(plain(models[role], recorded[role].calls) for role in models)

    seconds = interleaved({"ours": ours, "bare": bare_vllm, "generate": generate}, rounds)
    tokens = sum(engine.tokens for engine in recorded.values())
    rates = [tokens / s for s in seconds["ours"]]
    slow = [drawn["tokens"] / s for s in seconds["generate"]]
    beside_bare = ratios(seconds["bare"], seconds["ours"])
    bare_name = "their rate over bare vLLM's on the same requests"
    return [
        Finding("rollouts through the engine", Quartiles.of(rates), "tokens a second"),
        Finding(bare_name, beside_bare, "times", LEAST_OF_BARE),
        Finding("their rate over `generate`'s", ratios(rates, slow), "times"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--study", default="clinic", help="whose models and cases are used")
    parser.add_argument("--cases", type=int, default=64, help="rolled out side by side")
    parser.add_argument("--rounds", type=int, default=5, help="that count")
    arguments = parser.parse_args()
    single_threaded()
    study = load_study(arguments.study)
    study = dataclasses.replace(study, engine=dataclasses.replace(study.engine, kind="vllm"))
    task = rollout_task(study, Path())
    context = make_context(task, role_weights(task, "actor"))
    models = {role: role_weights(task, role).load() for role in ("actor", "patient")}
    cases = read_cases(Jobs(study).cases("train").latest)[: arguments.cases]
    return report(measure(context, models, cases, arguments.rounds))


if __name__ == "__main__":
    sys.exit(main())
