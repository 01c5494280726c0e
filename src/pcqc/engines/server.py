"""A frozen role behind an OpenAI-compatible server, such as `vllm serve` starts.

Prompts are sent as token ids and completions come back as token ids, by vLLM's extension of that
interface; so do log-probabilities of named tokens. Seeds and sampling are those of the vLLM engine,
and so are the samples of the same model.
"""

import concurrent.futures
import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, TimeoutError

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket, vllm_seed
from pcqc.errors import UserError
from pcqc.models.folder import MANIFEST
from pcqc.study import Server
from pcqc.system.files import read_json

# The same request may succeed later.
TRANSIENT = (408, 425, 429, *range(500, 600))
# No request can succeed: wrong address or no permission.
SETUP = (401, 403, 404, 405)
MAX_REPLY = 2**26  # bytes
COMPLETIONS = "/v1/completions"
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError)
# Sent with every request: a server takes what is left out from its model's generation config.
NEUTRAL = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}

logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # the record counts retries


class ServerEngine(Engine):
    """Generates and scores at a URL; every request may fail on its own.

    Args:
        server: its address, time-out and retries.

    Attributes:
        model: name of the model served.
        folder: model folder that the server was started with; None if it does not say.
        counts: `retries`, and failures by kind, since `take_counts` was last called.

    Raises:
        UserError: the server does not answer, or serves no model.
    """

    streams = True

    def __init__(self, server: Server):
        self.server = server
        self.counts: Counter[str] = Counter()
        self.tickets = 0
        self.running: dict[Ticket, list[concurrent.futures.Future]] = {}
        self._threads = ThreadPoolExecutor(server.concurrent)
        self._retry = urllib3.Retry(
            total=server.attempts - 1,
            allowed_methods=None,
            status_forcelist=TRANSIENT,
            raise_on_status=False,
            backoff_factor=server.backoff_seconds,
            backoff_jitter=server.backoff_seconds,
            retry_after_max=int(server.timeout_seconds),
        )
        self._pool = urllib3.connection_from_url(
            server.url, maxsize=server.concurrent, block=True, timeout=server.timeout_seconds
        )
        (model,) = self._all(self._models, [None])
        if isinstance(model, Failure):
            raise UserError(
                f"{server.url}: it serves no model ({model}); start the server, or correct the "
                "study's 'servers'"
            )
        self.model, self.folder = model

    def check_weights(self, own: Path) -> None:
        """Compare the server's model folder with the role's own.

        Only a folder of this project on this machine can be compared: not one on another machine,
        not a repository, and not what the folder held when the server started.

        Raises:
            UserError: the folders hold different files.
        """
        served, wanted = _files(self.folder), _files(own)
        if served and wanted and served != wanted:
            raise UserError(
                f"{self.server.url}: serves {self.folder}, whose weights are not the role's; "
                f"restart it with {own}, or correct the study's 'servers'"
            )

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> list[list[Completion | Failure]]:
        """See `Engine.generate`."""
        bodies = [body for request in requests for body in _bodies(request, sampling)]
        results = iter(self._complete(bodies, _completion))
        return [[next(results) for _ in r.streams] for r in requests]

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """See `Engine.submit`."""
        return self._begin(_bodies(request, sampling), _completion)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """See `Engine.submit_choices`."""
        return self._begin([_choices(prompt, choices)], _first_logprobs)

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """See `Engine.collect`."""
        pending = [f for futures in self.running.values() for f in futures if not f.done()]
        if wait and pending:
            concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
        ended = [t for t, futures in self.running.items() if all(f.done() for f in futures)]
        outcomes = {ticket: [f.result() for f in self.running.pop(ticket)] for ticket in ended}
        return {ticket: self._counted(results) for ticket, results in outcomes.items()}

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float] | Failure]:
        """See `Engine.next_logprobs`."""
        bodies = [_choices(prompt, ids) for prompt, ids in zip(prompts, choices, strict=True)]
        return self._complete(bodies, _first_logprobs)

    def take_counts(self) -> dict[str, int]:
        """Retries and failed requests since the last call."""
        counts, self.counts = self.counts, Counter()
        retries = counts.pop("retries", 0)
        return {"retries": retries, "failures": counts.total()}

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `Engine.load_weights`; a served role is frozen."""
        raise NotImplementedError("a served role is frozen")

    def _begin(self, bodies: list[dict], read: Callable[[dict, dict], Any]) -> Ticket:
        self.tickets += 1
        self.running[self.tickets] = [
            self._threads.submit(self._post, body, read) for body in bodies
        ]
        return self.tickets

    def _complete(self, bodies: list[dict], read: Callable[[dict, dict], Any]) -> list:
        return self._all(lambda body: self._post(body, read), bodies)

    def _models(self, body: None) -> tuple[Any, int]:
        return self._request("GET", "/v1/models", body, _first_model)

    def _post(self, body: dict, read: Callable[[dict, dict], Any]) -> tuple[Any, int]:
        common = {"model": self.model, "return_token_ids": True, "return_tokens_as_token_ids": True}
        return self._request("POST", COMPLETIONS, body | common, read)

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

    def _request(
        self, method: str, path: str, body: dict | None, read: Callable[[dict, Any], Any]
    ) -> tuple[Any, int]:
        """What `read` makes of the reply, or the last attempt's failure; and the retries made."""
        send: dict[str, Any] = {"json": body, "redirect": False, "preload_content": False}
        retry = self._retry
        while True:
            try:
                reply = self._pool.request(method, path, retries=retry, **send)
            except HTTPError as problem:
                return self._failure(getattr(problem, "reason", problem)), self.server.attempts - 1
            retry, content = reply.retries, b""
            try:
                content = _content(reply)
                if reply.status != 200:
                    return self._refusal(path, reply.status, content), len(retry.history)
                return read(json.loads(content), body), len(retry.history)
            except HTTPError as problem:
                failure = self._failure(problem)
            except UNREADABLE:
                failure = Failure("malformed", _start(content))
            if not retry.total:
                return failure, len(retry.history)
            retry = retry.increment(method, path, reply)
            retry.sleep()

    def _failure(self, problem: Exception) -> Failure:
        # To urllib3 a connection that is refused is a kind of time-out.
        refused = isinstance(problem, NewConnectionError)
        if isinstance(problem, TimeoutError) and not refused:
            return Failure("timeout", f"no answer within {self.server.timeout_seconds:g} s")
        return Failure("connection", str(problem))

    def _refusal(self, path: str, status: int, content: bytes) -> Failure:
        if status in SETUP:
            raise UserError(
                f"{self.server.url}{path}: status {status}: {_start(content)}; correct the "
                "study's 'servers', or have that server answer without a key"
            )
        message = f"{status}: {_start(content)}"
        return Failure("status" if status in TRANSIENT else "refused", message)


def _content(reply) -> bytes:
    """A reply's bytes; ValueError if there are more than `MAX_REPLY`."""
    content = reply.read(MAX_REPLY + 1)
    if len(content) > MAX_REPLY:
        reply.close()
        raise ValueError("the reply is too long")
    reply.release_conn()
    return content


def _files(folder: str | Path | None) -> dict | None:
    """Digests of a model folder's files; None if it is no folder with a manifest."""
    manifest = Path(folder) / MANIFEST if folder else None
    return read_json(manifest).get("files") if manifest and manifest.is_file() else None


def _start(content: bytes) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(content[:200].decode(errors="replace").split())


def _first_model(reply: dict, body: None) -> tuple[str, str | None]:
    model = reply["data"][0]
    name, root = model["id"], model.get("root")  # vLLM's own field: what `--model` was
    return name, root if isinstance(root, str) else None


def _bodies(request: Request, sampling: Sampling) -> list[dict]:
    """What is sent for each stream of a request."""
    common = {
        "prompt": list(request.prompt),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "stop_token_ids": [sampling.stop],
        "ignore_eos": True,
        "logprobs": 0,
        **NEUTRAL,
    }
    return [{"seed": vllm_seed(stream), **common} for stream in request.streams]


def _choices(prompt: Sequence[int], ids: Sequence[int]) -> dict:
    """What is sent for a prompt whose next token's log-probabilities are asked for."""
    common = {"temperature": 0, "max_tokens": 1, "logprobs": 1}
    return {"prompt": list(prompt), "logprob_token_ids": list(ids), **common}


def _completion(reply: dict, body: dict) -> Completion:
    choice = reply["choices"][0]
    tokens = [int(token) for token in choice["token_ids"]]
    logprobs = [_finite(value) for value in choice["logprobs"]["token_logprobs"]]
    if not 0 < len(tokens) == len(logprobs):
        raise ValueError("a completion needs tokens, and as many log-probabilities")
    return Completion(tokens, logprobs, tokens[-1] in body["stop_token_ids"])


def _first_logprobs(reply: dict, body: dict) -> list[float]:
    (values,) = reply["choices"][0]["logprobs"]["top_logprobs"]
    return [_finite(values[f"token_id:{token}"]) for token in body["logprob_token_ids"]]


def _finite(value) -> float:
    if not math.isfinite(value):
        raise ValueError("a log-probability is a number")
    return float(value)
