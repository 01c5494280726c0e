"""A frozen role behind OpenAI-compatible servers, such as `vllm serve` starts.

Prompts are sent as token ids and completions come back as token ids, by vLLM's extension of that
interface; so do log-probabilities of named tokens. Seeds and sampling are those of the vLLM engine,
and so are the samples of the same model.
"""

import concurrent.futures
import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import torch

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket, vllm_seed
from pcqc_base.errors import UserError
from pcqc_base.settings import Server
from pcqc_base.system.files import read_json
from pcqc_gpu.engines.replicas import Read, Replicas

CONFIG = "config.json"
# Sent with every request: a server takes what is left out from its model's generation config.
NEUTRAL = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}

Asked = tuple[dict, Read]  # what is sent, and what reads the reply to it


class _Threads:
    """Threads that do what is submitted, for as long as there is an owner.

    Python waits at its end for those of `concurrent.futures`: a run that has failed, or was
    stopped, would still send each request that is queued, and wait for answers until they time out.
    """

    def __init__(self, number: int):
        self._tasks: SimpleQueue = SimpleQueue()
        for _ in range(number):
            Thread(target=self._work, args=(self._tasks,), daemon=True).start()
        weakref.finalize(self, self._stop, self._tasks, number)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        """The result to come of `work(*arguments)`."""
        future: Future = Future()
        self._tasks.put((future, work, arguments))
        return future

    @staticmethod
    def _work(tasks: SimpleQueue) -> None:
        while task := tasks.get():
            future, work, arguments = task
            try:
                future.set_result(work(*arguments))
            except BaseException as error:
                future.set_exception(error)
            del task, future, work, arguments  # else they keep the owner while it waits

    @staticmethod
    def _stop(tasks: SimpleQueue, number: int) -> None:
        for _ in range(number):
            tasks.put(None)


class ServerEngine(Engine):
    """Generates and scores at URLs; every request may fail on its own.

    Args:
        server: addresses, time-out and retries.

    Attributes:
        counts: `retries`, and failures by kind, since `take_faults` was last called.

    Raises:
        UserError: no server answers, or none serves a model.
    """

    streams = True
    path = "/completions"

    def __init__(self, server: Server):
        self.server = server
        self.counts: Counter[str] = Counter()
        self.tickets = 0
        # requests in progress, and what makes the ticket's result of theirs
        self.running: dict[Ticket, tuple[list[Future], Callable[[list], list]]] = {}
        self.answered = False  # whether any request was, since then
        self.vocabulary = math.inf
        self.replicas = Replicas(server)
        self.replicas.look_up()
        self._threads = _Threads(server.concurrent * len(self.replicas.all))

    @property
    def model(self) -> str:
        """Name of the model served."""
        return next(replica.model for replica in self.replicas.all if not replica.down)

    def check_weights(self, own: Path) -> None:
        """Compare the servers' model folders with the role's own, whose vocabulary they have.

        Only a folder of this project on this machine can be compared: not one on another machine,
        not a repository, and not what the folder held when the server started.

        Raises:
            UserError: the folders hold different files.
        """
        self.replicas.own, self.vocabulary = own, _vocabulary(own)
        for replica in self.replicas.all:
            self.replicas.check(replica)

    def wake(self) -> None:
        """Look at the servers: one that was down and answers again is asked again."""
        self.replicas.look_up()

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> list[list[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order."""
        results = iter(
            self._all([a for request in requests for a in self.samples(request, sampling)])
        )
        return [[next(results) for _ in r.streams] for r in requests]

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """Accept a request beside those in progress."""
        return self._begin(self.samples(request, sampling), list)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """Accept one prompt of `next_logprobs`, beside requests in progress."""
        asked = self.choices(prompt, choices)
        return self._begin(asked, lambda results: [self.row(results, choices)])

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """Requests that have finished since the last call, each with its result."""
        pending = [f for futures, _ in self.running.values() for f in futures if not f.done()]
        if wait and pending:
            concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
        ended = [t for t, (futures, _) in self.running.items() if all(f.done() for f in futures)]
        finished = {}
        for ticket in ended:
            futures, join = self.running.pop(ticket)
            finished[ticket] = join(self._counted([future.result() for future in futures]))
        return finished

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`."""
        rows = list(zip(prompts, choices, strict=True))
        asked = [self.choices(prompt, ids) for prompt, ids in rows]
        results = iter(self._all([a for of_prompt in asked for a in of_prompt]))
        return [
            self.row([next(results) for _ in of_prompt], ids)
            for of_prompt, (_, ids) in zip(asked, rows, strict=True)
        ]

    def samples(self, request: Request, sampling: Sampling) -> list[Asked]:
        """What is asked for each stream of a request."""
        common = {
            "prompt": list(request.prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": list(sampling.stop),
            "ignore_eos": True,
            "logprobs": 0,
            **NEUTRAL,
            **IDS,
        }
        seeds = (vllm_seed(stream) for stream in request.streams)
        return [({"seed": seed, **common}, self._completion) for seed in seeds]

    def choices(self, prompt: Sequence[int], ids: Sequence[int]) -> list[Asked]:
        """What is asked for the log-probabilities of the tokens `ids` after a prompt."""
        common = {"temperature": 0, "max_tokens": 1, "logprobs": 1, **IDS}
        return [
            ({"prompt": list(prompt), "logprob_token_ids": list(ids), **common}, _first_logprobs)
        ]

    def row(self, results: Sequence[Any], ids: Sequence[int]) -> list[float] | Failure:
        """The log-probabilities of the tokens `ids`, of what was read for them."""
        (result,) = results
        return result

    def take_faults(self) -> dict[str, int]:
        """Retries and failed requests since the last call; of several servers, those down."""
        counts, self.counts, self.answered = self.counts, Counter(), False
        taken = {"retries": counts.pop("retries", 0), "failures": counts.total()}
        if self.server.replicas:
            taken["down"] = sum(replica.down for replica in self.replicas.all)
        return taken

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Refuses: a served role is frozen."""
        raise NotImplementedError("a served role is frozen")

    def _completion(self, reply: dict, body: dict) -> Completion:
        return _completion(reply, body, self.vocabulary)

    def _begin(self, asked: Sequence[Asked], join: Callable[[list], list]) -> Ticket:
        self.tickets += 1
        self.running[self.tickets] = [self._threads.submit(self._post, a) for a in asked], join
        return self.tickets

    def _post(self, asked: Asked) -> tuple[Any, int]:
        body, read = asked
        return self.replicas.request(self.path, body, read)

    def _counted(self, outcomes: Sequence[tuple[Any, int]]) -> list:
        """Results of requests, whose retries and failures are counted."""
        results = [result for result, _ in outcomes]
        self.counts["retries"] += sum(retries for _, retries in outcomes)
        self.counts.update(result.kind for result in results if isinstance(result, Failure))
        self.answered |= any(not isinstance(result, Failure) for result in results)
        return results

    def _all(self, asked: Sequence[Asked]) -> list:
        """Each request's result or failure, in order; requests run in parallel.

        Raises:
            UserError: all failed, none because the server refused it, and no other request has
                been answered since `take_faults`: then the servers are at fault, not a request.
        """
        futures = [self._threads.submit(self._post, a) for a in asked]
        results = self._counted([future.result() for future in futures])
        failures = [result for result in results if isinstance(result, Failure)]
        if failures and not self.answered and not any(f.kind == "refused" for f in failures):
            raise UserError(
                f"{' and '.join(self.server.urls)}: {len(failures)} of {len(results)} requests "
                f"failed after {self.server.attempts} attempts each ({failures[-1]}); check the "
                "server and rerun"
            )
        return results


def _completion(reply: dict, body: dict, vocabulary: float) -> Completion:
    """The completion in a reply; ValueError saying what no model can have given."""
    choice = reply["choices"][0]
    tokens = checked_list(choice["token_ids"])
    logprobs = [
        checked_logprob(value) for value in checked_list(choice["logprobs"]["token_logprobs"])
    ]
    for token in tokens:
        if type(token) is not int or not 0 <= token < vocabulary:
            raise ValueError(f"token id {token!r} of a vocabulary of {vocabulary}")
    if not 1 <= len(tokens) <= body["max_tokens"]:
        raise ValueError(f"{len(tokens)} tokens, 1 to {body['max_tokens']} were asked for")
    if set(tokens[:-1]) & set(body["stop_token_ids"]):
        raise ValueError("tokens after the one that ends a completion")
    if len(tokens) != len(logprobs):
        raise ValueError(f"{len(logprobs)} log-probabilities of {len(tokens)} tokens")
    return Completion(tokens, logprobs)


def _first_logprobs(reply: dict, body: dict) -> list[float]:
    (values,) = reply["choices"][0]["logprobs"]["top_logprobs"]
    return [checked_logprob(values[f"token_id:{token}"]) for token in body["logprob_token_ids"]]


def checked_list(value: Any) -> list:
    if type(value) is not list:
        raise ValueError(f"{value!r} in place of a list")
    return value


def checked_logprob(value: Any) -> float:
    if type(value) not in (int, float) or not -math.inf < value <= 0:
        raise ValueError(f"{value!r} as a log-probability")
    return float(value)


def _vocabulary(folder: Path) -> float:
    """Number of token ids of a folder's model; infinite where the folder does not say."""
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    return config.get("text_config", config).get("vocab_size", math.inf)
