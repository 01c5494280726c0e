"""vLLM as our engine, alone: start, new weights, samples that repeat, rate beside bare vLLM.

    python -m benchmarks.engine [--size Qwen3-1.7B] [--rounds 3] [--float32-head]

Weights are random. The engine has a process of its own, as in a run that trains. New weights reach
it by handles, on a GPU, and by files. The same requests are drawn again, and a few of them without
the others. What costs our engine a part of bare vLLM's rate is shown by switching off, one by one
and together, what our requests set; bare vLLM is all of it off. Each rate is taken in turn with the
others. Last, the learner reads what the engine sampled. Without a GPU the size is tiny.

Writes results/engine.json and engine.md with each row. What fails is a row that says why, the
others go on, and the exit status is 1.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.batches import Draw
from benchmarks.learner import SIZES, SPREAD, TINY, make_model, make_policy
from benchmarks.measure import Page
from benchmarks.rollouts import rates
from pcqc.engines.base import Completion, Engine, Request, Sampling, WrappedEngine
from pcqc.engines.weight_update import WeightUpdate
from pcqc.seeds import stream
from pcqc.training.batching import SelectedTokens
from pcqc.training.mismatch import Ratios, statistics
from pcqc.training.policy import Policy
from pcqc_base.errors import UserError
from pcqc_base.system.processes import join, leaving
from pcqc_gpu.engines.vllm import VllmEngine
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.timed_updates import finish, timed

STOP = 2


@dataclass(frozen=True)
class Load:
    """What is asked of the engine.

    Attributes:
        requests: each with two samples.
        prompt, new: tokens of each prompt, and of each sample at most.
        few: requests that are drawn without the others.
        batch, cache: sequences decoded at once, tokens of the cache.
    """

    requests: int = 256
    prompt: int = 700
    new: int = 128
    few: int = 16
    batch: int = 256
    cache: int = 262144

    def drawn(self, vocabulary: int) -> list[Request]:
        """Random prompts, each with two streams."""
        draw = Draw(vocabulary, seed=0)
        prompts = [draw.tokens((self.prompt, self.prompt + 1)) for _ in range(self.requests)]
        return [Request(p, (stream(0, i, 0), stream(0, i, 1))) for i, p in enumerate(prompts)]


SMALL = Load(requests=8, prompt=60, new=12, few=3, batch=16, cache=4096)


class TimedLoading(WrappedEngine):
    """An engine whose last `load_weights` took `seconds`."""

    seconds = 0.0

    def load_weights(self, weights) -> None:
        """See `Engine.load_weights`."""

        def load() -> None:
            self.engine.load_weights(weights)
            finish()

        self.seconds = timed(load)


def load_weights(engine: Engine, policy: Policy, prompts: Sequence[Sequence[int]]) -> dict:
    """Seconds of new weights, and how far engine and learner are apart with them.

    Args:
        engine: to which they go.
        policy: whose they are.
        prompts: on which both are compared.
    """
    loading, gaps = TimedLoading(engine), []
    # The row says how far apart they are, whatever it is.
    update = WeightUpdate(loading, policy.next_logprobs, prompts, tolerance=float("inf"))
    whole = timed(lambda: gaps.append(update(policy.weights())))
    size = sum(parameter.nbytes for parameter in policy.model.parameters()) / GIB
    seconds = {"seconds": loading.seconds, "with the comparison": whole}
    return {**seconds, "GiB a second": size / loading.seconds, "gap": gaps[0]}


def sleep(engine: VllmEngine) -> dict[str, float]:
    """Seconds of sleep and of waking, and the GiB of the GPU that are free between them."""
    asleep = timed(engine.sleep)
    free = torch.cuda.mem_get_info()[0] / GIB
    return {"sleep": asleep, "wake": timed(engine.wake), "GiB free asleep": free}


Groups = Sequence[Sequence[Completion]]


def draw(engine: Engine, requests: Sequence[Request], sampling: Sampling) -> Groups:
    """Samples from an empty cache."""
    engine.reset_cache()
    return engine.generate(requests, sampling)


def equal(first: Groups, second: Groups) -> dict[str, int]:
    """How many samples have the same tokens."""
    pairs = [
        (a.tokens, b.tokens)
        for groups in zip(first, second, strict=True)
        for a, b in zip(*groups, strict=True)
    ]
    return {"equal": sum(a == b for a, b in pairs), "samples": len(pairs)}


def repeats(engine: Engine, requests: Sequence[Request], sampling: Sampling, few: int) -> list:
    """How many samples come out equal when they are asked for in another way.

    Args:
        engine: asked.
        requests: all of them together are the batch.
        sampling: of each.
        few: of the requests are drawn without the others.
    """
    batch, some = draw(engine, requests, sampling), requests[:few]
    alone = [draw(engine, [request], sampling)[0] for request in some]
    return [
        {"asked": "the same batch again", **equal(batch, draw(engine, requests, sampling))},
        {"asked": "a few, no others", **equal(batch[:few], draw(engine, some, sampling))},
        {"asked": "each of these alone", **equal(batch[:few], alone)},
    ]


def gap(policy: Policy, requests: Sequence[Request], groups: Groups) -> dict[str, float]:
    """How far the learner's log-probabilities of samples are from those that the engine gave."""
    pairs = [(r, c) for r, group in zip(requests, groups, strict=True) for c in group]
    sampled = []
    for request, completion in pairs:
        tokens = [*request.prompt, *completion.tokens]
        sampled.append(SelectedTokens(tokens, np.arange(len(tokens)) >= len(request.prompt)))
    learner = np.concatenate(policy.logprobs(sampled))
    engine = np.concatenate([completion.logprobs for _, completion in pairs])
    lengths = [len(completion.tokens) for _, completion in pairs]
    told = statistics(Ratios(learner - engine, lengths).sums())
    return {"mean": told["gap/mean"], "largest": told["gap/max"], "tokens": len(engine)}


def weights(page: Page, engine: VllmEngine, policy: Policy, requests: Sequence[Request]) -> None:
    """New weights in each way, and after a sleep."""
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.1)  # unlike those that the engine started with
    load = partial(load_weights, engine, policy, [request.prompt for request in requests[:4]])
    on_gpu = torch.cuda.is_available()
    for way in ["handles"] * 3 + ["files"] if on_gpu else ["files"] * 2:
        engine.transfer = way
        page.add("New weights", {"by": way}, load)
    if engine.sleeps:
        engine.transfer = "handles"
        page.add("Sleep", {}, partial(sleep, engine))
        page.add("New weights", {"by": "handles, after a sleep"}, load)


def measure(page: Page, size: str, rounds: int, head: bool) -> None:
    """All of it for a size; `head`: whether logits stay in float32."""
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    load, shape = SMALL if size == TINY else Load(), SIZES[size]
    requests, sampling = load.drawn(shape.vocabulary), Sampling(1.0, 1.0, load.new, (STOP,))
    model = make_model(shape, dtype, initializer_range=SPREAD)
    with leaving(processes := join([0])), tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        policy = make_policy(model, load.cache // 8, processes, head=head)
        begun = time.perf_counter()
        engine = VllmEngine(
            Path(folder),
            dtype=dtype,
            batch_size=load.batch,
            cache_tokens=load.cache,
            own_process=True,
            float32_head=head,
            renewed=True,
        )
        _ = engine.llm  # waits until it has started
        started = {"seconds": time.perf_counter() - begun}
        try:
            page.add("Start", {"model": size, "numbers": dtype}, lambda: started)
            weights(page, engine, policy, requests)
            page.add(
                "Samples that repeat", {}, partial(repeats, engine, requests, sampling, load.few)
            )
            page.add("Rate", {}, partial(rates, engine, requests, sampling, rounds))
            some = requests[:64]
            page.add(
                "Gap to the learner, nats a token",
                {},
                lambda: gap(policy, some, draw(engine, some, sampling)),
            )
        finally:
            engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="engine", description=(__doc__ or "").split("\n")[0])
    default = "Qwen3-1.7B" if torch.cuda.is_available() else TINY
    parser.add_argument("--size", choices=SIZES, default=default, help="the model")
    parser.add_argument("--rounds", type=int, default=3, help="of each rate, that count")
    parser.add_argument("--float32-head", action="store_true", help="logits stay in float32")
    arguments = parser.parse_args()
    page = Page("engine")
    try:
        measure(page, arguments.size, arguments.rounds, arguments.float32_head)
    except UserError as problem:
        parser.error(str(problem))
    return page.end()


if __name__ == "__main__":
    sys.exit(main())
