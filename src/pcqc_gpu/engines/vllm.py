"""vLLM as an engine, in the learner's process or in one of its own.

vLLM's sampler is seeded per sample by its stream. On a CPU its samples repeat, as the transformers
engine's do, but they are other samples. On a GPU they repeat with batch-invariant kernels alone.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from pcqc.engines.base import Completion, Engine, Request, Sampling, Ticket, vllm_seed
from pcqc_base.errors import UserError
from pcqc_gpu.engines.vllm_ended import end_calls, says_why
from pcqc_gpu.engines.vllm_start import start
from pcqc_gpu.engines.weight_transfer import by_files, by_handles
from pcqc_gpu.engines.weight_transfer.checksums import noted


class VllmEngine(Engine):
    """A model served by vLLM within this process, or within a subprocess of it.

    Prefixes are cached by vLLM, across turns and candidates alike.

    Args:
        folder: model folder; the weights it starts with.
        dtype: number format of weights and cache.
        batch_size: sequences decoded at once.
        cache_tokens: capacity of the cache, which also bounds prompt and completion together.
        own_process: whether vLLM has its own process, as it must where several learners run.
        tensor_parallel: devices that share the model, from the current one on; above 1, vLLM starts
            its own processes.
        sleeps: whether `sleep` frees memory; on a CPU it never does.
        working_gib: memory of a GPU beside weights and cache; all three must be free at the start.
        float32_head: whether logits stay in float32, where weights are bfloat16.
        renewed: whether new weights come after each sleep, so that it need not keep the old ones.
        transfer: how weights reach another process on a GPU, `handles` or `files`.

    Raises:
        UserError: vLLM is missing, is not the build for this machine, or refuses the model.
    """

    streams = True

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str = "float32",
        batch_size: int = 256,
        cache_tokens: int = 262144,
        own_process: bool = False,
        tensor_parallel: int = 1,
        sleeps: bool = True,
        working_gib: float = 2.0,
        float32_head: bool = False,
        renewed: bool = False,
        transfer: str = "handles",
    ):
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not own_process:
            raise UserError(
                "vLLM cannot share a process with one of several learners; set engine.process: own"
            )
        self.shared = self.in_turns = not own_process and tensor_parallel == 1
        self.starting = start(
            folder,
            dtype=dtype,
            batch_size=batch_size,
            cache_tokens=cache_tokens,
            tensor_parallel=tensor_parallel,
            sleeps=sleeps,
            working_gib=working_gib,
            float32_head=float32_head,
            shared=self.shared,
        )
        self.tickets, self.at_once = 0, batch_size
        self.running: dict[Ticket, tuple[Callable[[Any], Any], dict[int, Any]]] = {}
        self.renewed, self.transfer = renewed, transfer

    @cached_property
    def llm(self) -> Any:
        """The `vllm.LLM`, once it has started. UserError: vLLM refuses the model."""
        llm = self.starting.wait()
        if not self.shared:
            end_calls(llm.llm_engine.engine_core)
        return llm

    @cached_property
    def sleeps(self) -> bool:
        """Whether `sleep` frees memory."""
        return self.llm.model_config.enable_sleep_mode

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One list of completions per request, one completion per stream of it, in order.

        Raises:
            UserError: a prompt and its completion do not fit the context.
        """
        prompts = [r.prompt for r in requests for _ in r.streams]
        parameters = [sampling_params(sampling, s) for r in requests for s in r.streams]
        outputs = iter(self._run(prompts, parameters, sampling.max_tokens))
        return [[_completion(next(outputs)) for _ in r.streams] for r in requests]

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """Accept a request beside those in progress."""
        parameters = [sampling_params(sampling, stream) for stream in request.streams]
        return self._begin(request.prompt, parameters, _completion)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """Accept one prompt of `next_logprobs`, beside requests in progress."""
        return self._begin(prompt, [_choice_params(choices)], partial(_row, choices=choices))

    @says_why
    def collect(self, wait: bool) -> dict[Ticket, list]:
        """Requests that have finished; in a shared process, after one step for all in progress."""
        finished: dict[Ticket, list] = {}
        must = wait or self.shared
        # A step in vLLM's own process that has ended: asking for it does not wait.
        ended = None if self.shared else self.llm.llm_engine.engine_core.outputs_queue
        while self.running and (must or (ended is not None and not ended.empty())):
            must = False
            for output in self.llm.llm_engine.step():
                ticket, number = map(int, output.request_id.split("/"))
                read, results = self.running[ticket]
                results[number] = read(output.outputs[0])
                if None not in results.values():
                    finished[ticket] = list(results.values())
                    del self.running[ticket]
        return finished

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log P(token | prompt) for each token of `choices`; at most 128 a prompt."""
        outputs = self._run(prompts, [_choice_params(ids) for ids in choices], 1)
        return [_row(output, ids) for output, ids in zip(outputs, choices, strict=True)]

    @says_why
    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Hand named weights to vLLM, and forget what it computed with the old ones.

        Raises:
            UserError: vLLM did not get the same bytes, or did not take all of them.
        """
        sent: dict[str, int] = {}
        weights = noted(((name, tensor.detach()) for name, tensor in weights), sent)
        self.llm.collective_rpc("begin_weights")
        with self._parts(weights) as parts:
            for part in parts:
                self.llm.collective_rpc("take_weights", args=(part,))
        for received, kept in self.llm.collective_rpc("end_weights"):
            wrong = [n for n in {**sent, **received} if sent.get(n) != received.get(n)] or kept
            if wrong:
                raise UserError(
                    f"vLLM does not have the learner's weights: {wrong[0]} and {len(wrong) - 1} "
                    "more did not arrive as they were sent, or were not taken; rerun, and if it "
                    "happens again, set placement.transfer: files"
                )
        self.empty = False
        self.reset_cache()

    @contextmanager
    def _parts(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Iterable]:
        """What vLLM's workers are handed, one after another: see `WeightReceiver.take_weights`."""
        if self.shared:
            yield [weights]
        elif torch.cuda.is_available() and self.transfer == "handles":
            yield by_handles.parts(weights)
        else:
            with by_files.written(weights, self.processes) as folder:
                yield [str(folder)]

    @says_why
    def reset_cache(self) -> None:
        """Forget cached prefixes."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache; are requests still running?")

    @says_why
    def sleep(self) -> None:
        """Free memory for the learner; on a CPU vLLM has no such mode and keeps its memory.

        Weights that come anew are dropped, the others kept in the host's memory.
        """
        if self.sleeps:
            self.empty = self.renewed
            self.llm.sleep(level=2 if self.renewed else 1)

    @says_why
    def wake(self) -> None:
        """Take the memory back; first the learner's allocator frees what it does not use."""
        if self.sleeps:
            torch.cuda.empty_cache()
            self.llm.wake_up()

    def close(self) -> None:
        """Stop vLLM and free what it holds."""
        self.llm.llm_engine.engine_core.shutdown()

    @says_why
    def _begin(self, prompt: Sequence[int], parameters: list, read: Callable[[Any], Any]) -> Ticket:
        """Start a prompt once with each of the parameters; `read` gives the result of an output."""
        from vllm.sampling_params import RequestOutputKind

        self._check([prompt], parameters[0].max_tokens)
        self.tickets += 1
        self.running[self.tickets] = read, dict.fromkeys(range(len(parameters)))
        for number, sampling in enumerate(parameters):
            sampling.output_kind = RequestOutputKind.FINAL_ONLY
            tokens = {"prompt_token_ids": list(prompt)}
            self.llm.llm_engine.add_request(f"{self.tickets}/{number}", tokens, sampling)
        return self.tickets

    @says_why
    def _run(self, prompts, parameters, new_tokens: int) -> list:
        """vLLM's output for each prompt."""
        self._check(prompts, new_tokens)
        inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        results = self.llm.generate(inputs, parameters, use_tqdm=False) if inputs else []
        return [result.outputs[0] for result in results]

    def _check(self, prompts, new_tokens: int) -> None:
        """Raise UserError where prompt and completion do not fit the context."""
        if self.empty:
            raise RuntimeError(
                "the engine dropped its weights in its sleep: hand it new ones first"
            )
        longest, most = max(map(len, prompts), default=0), self.llm.model_config.max_model_len
        if longest + new_tokens > most:
            raise UserError(
                f"a prompt of {longest} tokens and {new_tokens} new ones exceed the {most} "
                "that fit the engine's cache; raise engine.cache_tokens or shorten the prompt"
            )


def sampling_params(sampling: Sampling, stream: int):
    """vLLM's parameters of one sample."""
    from vllm import SamplingParams

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop_token_ids=list(sampling.stop),
        ignore_eos=True,  # the caller's stop tokens count, not the model's
        seed=vllm_seed(stream),
        logprobs=0,  # only the sampled token's, under the whole vocabulary at temperature 1
        detokenize=False,
    )


def _choice_params(choices: Sequence[int]):
    from vllm import SamplingParams

    return SamplingParams(
        temperature=0, max_tokens=1, detokenize=False, logprob_token_ids=list(choices)
    )


def _row(output, choices: Sequence[int]) -> list[float]:
    return [output.logprobs[0][token].logprob for token in choices]


def _completion(output) -> Completion:
    tokens = list(output.token_ids)
    logprobs = [entry[t].logprob for entry, t in zip(output.logprobs, tokens, strict=True)]
    return Completion(tokens, logprobs)
