"""A frozen role behind OpenAI-compatible servers, such as `vllm serve` starts.

Prompts are sent as token ids and completions come back as token ids, by vLLM's extension of that
interface; so do log-probabilities of named tokens. Seeds and sampling are those of the vLLM engine,
and so are the samples of the same model.
"""

import concurrent.futures
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket, vllm_seed
from pcqc.models.folder import MANIFEST
from pcqc_base.errors import UserError
from pcqc_base.settings import Server
from pcqc_base.system.files import read_json
from pcqc_gpu.engines.replicas import Read, Replica, Replicas

COMPLETIONS = "/v1/completions"
CONFIG = "config.json"
# Sent with every request: a server takes what is left out from its model's generation config.
NEUTRAL = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


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

    def __init__(self, server: Server):
        self.server = server
        self.counts: Counter[str] = Counter()
        self.tickets = 0
        self.running: dict[Ticket, list[concurrent.futures.Future]] = {}
        self.own: Path | None = None
        self.vocabulary = math.inf
        self.replicas = Replicas(server)
        self.replicas.look_up()
        self._threads = ThreadPoolExecutor(server.concurrent * len(self.replicas.all))

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
        self.own, self.vocabulary = own, _vocabulary(own)
        for replica in self.replicas.all:
            self._check(replica)

    def _check(self, replica: Replica) -> None:
        served, wanted = _files(replica.folder), _files(self.own)
        if served and wanted and served != wanted:
            raise UserError(
                f"{replica.url}: serves {replica.folder}, whose weights are not the role's; "
                f"restart it with {self.own}, or correct the study's 'servers'"
            )

    def wake(self) -> None:
        """Look at the servers: one that was down and answers again is asked again."""
        for replica in self.replicas.look_up():
            self._check(replica)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> list[list[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order."""
        bodies = [body for request in requests for body in _bodies(request, sampling)]
        results = iter(self._complete(bodies, self._completion))
        return [[next(results) for _ in r.streams] for r in requests]

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """Accept a request beside those in progress."""
        return self._begin(_bodies(request, sampling), self._completion)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """Accept one prompt of `next_logprobs`, beside requests in progress."""
        return self._begin([_choices(prompt, choices)], _first_logprobs)

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """Requests that have finished since the last call, each with its result."""
        pending = [f for futures in self.running.values() for f in futures if not f.done()]
        if wait and pending:
            concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
        ended = [t for t, futures in self.running.items() if all(f.done() for f in futures)]
        outcomes = {ticket: [f.result() for f in self.running.pop(ticket)] for ticket in ended}
        return {ticket: self._counted(results) for ticket, results in outcomes.items()}

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`."""
        bodies = [_choices(prompt, ids) for prompt, ids in zip(prompts, choices, strict=True)]
        return self._complete(bodies, _first_logprobs)

    def take_faults(self) -> dict[str, int]:
        """Retries and failed requests since the last call; of several servers, those down."""
        counts, self.counts = self.counts, Counter()
        taken = {"retries": counts.pop("retries", 0), "failures": counts.total()}
        if self.server.replicas:
            taken["down"] = sum(replica.down for replica in self.replicas.all)
        return taken

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Refuses: a served role is frozen."""
        raise NotImplementedError("a served role is frozen")

    def _completion(self, reply: dict, body: dict) -> Completion:
        return _completion(reply, body, self.vocabulary)

    def _begin(self, bodies: list[dict], read: Read) -> Ticket:
        self.tickets += 1
        self.running[self.tickets] = [
            self._threads.submit(self._post, body, read) for body in bodies
        ]
        return self.tickets

    def _complete(self, bodies: list[dict], read: Read) -> list:
        return self._all(lambda body: self._post(body, read), bodies)

    def _post(self, body: dict, read: Read) -> tuple[Any, int]:
        common = {"return_token_ids": True, "return_tokens_as_token_ids": True}
        return self.replicas.request(COMPLETIONS, body | common, read)

    def _counted(self, outcomes: Sequence[tuple[Any, int]]) -> list:
        """Results of requests, whose retries and failures are counted."""
        results = [result for result, _ in outcomes]
        self.counts["retries"] += sum(retries for _, retries in outcomes)
        self.counts.update(result.kind for result in results if isinstance(result, Failure))
        return results

    def _all(self, request: Callable[[Any], tuple[Any, int]], bodies: list) -> list:
        """Each request's result or failure, in order; requests run in parallel.

        Raises:
            UserError: all failed, and none because the server refused it.
        """
        results = self._counted(list(self._threads.map(request, bodies)))
        failures = [result for result in results if isinstance(result, Failure)]
        if (
            failures
            and len(failures) == len(results)
            and not any(f.kind == "refused" for f in failures)
        ):
            raise UserError(
                f"{self.server.url}: {len(failures)} of {len(results)} requests failed after "
                f"{self.server.attempts} attempts each ({failures[-1]}); check the server and rerun"
            )
        return results


def _files(folder: str | Path | None) -> dict | None:
    """Digests of a model folder's files; None if it is no folder with a manifest."""
    manifest = Path(folder) / MANIFEST if folder else None
    return read_json(manifest).get("files") if manifest and manifest.is_file() else None


def _bodies(request: Request, sampling: Sampling) -> list[dict]:
    """What is sent for each stream of a request."""
    common = {
        "prompt": list(request.prompt),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "stop_token_ids": list(sampling.stop),
        "ignore_eos": True,
        "logprobs": 0,
        **NEUTRAL,
    }
    return [{"seed": vllm_seed(stream), **common} for stream in request.streams]


def _choices(prompt: Sequence[int], ids: Sequence[int]) -> dict:
    """What is sent for a prompt whose next token's log-probabilities are asked for."""
    common = {"temperature": 0, "max_tokens": 1, "logprobs": 1}
    return {"prompt": list(prompt), "logprob_token_ids": list(ids), **common}


def _completion(reply: dict, body: dict, vocabulary: float) -> Completion:
    """The completion in a reply; ValueError saying what no model can have given."""
    choice = reply["choices"][0]
    tokens = _list(choice["token_ids"])
    logprobs = [_logprob(value) for value in _list(choice["logprobs"]["token_logprobs"])]
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
    return [_logprob(values[f"token_id:{token}"]) for token in body["logprob_token_ids"]]


def _list(value: Any) -> list:
    if type(value) is not list:
        raise ValueError(f"{value!r} in place of a list")
    return value


def _logprob(value: Any) -> float:
    if type(value) not in (int, float) or not -math.inf < value <= 0:
        raise ValueError(f"{value!r} as a log-probability")
    return float(value)


def _vocabulary(folder: Path) -> float:
    """Number of token ids of a folder's model; infinite where the folder does not say."""
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    return config.get("text_config", config).get("vocab_size", math.inf)
