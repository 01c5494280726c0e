"""A frozen role behind an OpenAI-compatible server, such as `vllm serve` starts.

Prompts go there as token ids, and token ids come back, which is vLLM's extension of that interface;
so are log-probabilities of named tokens. The seeds are those of the vLLM engine, and so are the
samples of the same model.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import urllib3

from pcqc.config import Server
from pcqc.engines.base import Completion, Failure, Request, Sampling, vllm_seed
from pcqc.errors import UserError
from pcqc.files import read_json
from pcqc.models import MANIFEST

BUSY = (408, 425, 429)  # besides 5xx: the same request may succeed later
SETUP = (401, 403, 404, 405)  # no request can succeed


class ServerEngine:
    """Generates and scores at a URL; every request may fail on its own.

    Args:
        server: where, and how patiently.

    Attributes:
        model: name of the model served.
        folder: where the server found its weights, as it was started; None where it does not say.
        counts: attempts beyond the first as `retries`, and failures by kind, since they were last
            taken.

    Raises:
        UserError: the server does not answer, or serves no model.
    """

    def __init__(self, server: Server):
        self.server = server
        self.counts: Counter[str] = Counter()
        self._pool = urllib3.connection_from_url(
            server.url, maxsize=server.concurrent, block=True, timeout=server.timeout_seconds
        )
        (found,) = self._all([("GET", "/v1/models", None, _first_model)])
        if isinstance(found, Failure):
            raise UserError(
                f"{server.url}: no model is served there ({found}); start the server, or correct "
                "the study's 'servers'"
            )
        self.model, self.folder = found

    def check_weights(self, own: Path) -> None:
        """Compare the model folder that the server says it was started with to the role's own.

        Only a folder of this project's that lies on this machine can be compared. A folder of
        another machine, a repository, or what stood in the folder when the server was started
        cannot be told from here.

        Raises:
            UserError: the folders hold other files.
        """
        served, wanted = _files(self.folder), _files(own)
        if served and wanted and served != wanted:
            raise UserError(
                f"{self.server.url}: serves {self.folder}, whose weights are not the role's; start "
                f"it with {own}, or correct the study's 'servers'"
            )

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> list[list[Completion | Failure]]:
        """See `Engine.generate`."""
        common = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": [sampling.stop],
            "ignore_eos": True,
            "logprobs": 0,
        }
        bodies = [
            {"prompt": list(r.prompt), "seed": vllm_seed(stream), **common}
            for r in requests
            for stream in r.streams
        ]
        results = iter(self._complete(bodies, _completion))
        return [[next(results) for _ in r.streams] for r in requests]

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float] | Failure]:
        """See `Engine.next_logprobs`."""
        common = {"temperature": 0, "max_tokens": 1, "logprobs": 1}
        bodies = [
            {"prompt": list(prompt), "logprob_token_ids": list(ids), **common}
            for prompt, ids in zip(prompts, choices, strict=True)
        ]
        return self._complete(bodies, _first_logprobs)

    def take_counts(self) -> dict[str, int]:
        """Repeated attempts and failed requests since the last call, which starts them at 0."""
        counts, self.counts = self.counts, Counter()
        retries = counts.pop("retries", 0)
        return {"retries": retries, "failures": counts.total()}

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `Engine.load_weights`: never, since a served role is frozen."""
        raise NotImplementedError("a served role is frozen")

    def reset_cache(self) -> None:
        """See `Engine.reset_cache`: the server's weights do not change, its cache may stay."""

    def sleep(self) -> None:
        """See `Engine.sleep`: the memory is the server's."""

    def wake(self) -> None:
        """See `Engine.wake`."""

    def _complete(self, bodies: list[dict], read: Callable[[dict, dict], Any]) -> list:
        common = {
            "model": self.model,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        return self._all([("POST", "/v1/completions", {**body, **common}, read) for body in bodies])

    def _all(self, requests: list[tuple]) -> list:
        """What is read from each reply, or its failure; side by side, in order.

        Raises:
            UserError: none was answered, and none for a fault of its own.
        """
        if not requests:
            return []
        with ThreadPoolExecutor(min(len(requests), self.server.concurrent)) as threads:
            outcomes = list(threads.map(lambda request: self._patiently(*request), requests))
        results = [result for result, _ in outcomes]
        failures = [result for result in results if isinstance(result, Failure)]
        self.counts["retries"] += sum(attempts - 1 for _, attempts in outcomes)
        self.counts.update(failure.kind for failure in failures)
        if len(failures) == len(results) and not any(f.kind == "refused" for f in failures):
            raise UserError(
                f"{self.server.url}: {len(failures)} of {len(results)} requests failed after "
                f"{self.server.attempts} attempts each ({failures[-1]}); see to the server and "
                "run again"
            )
        return results

    def _patiently(self, *request) -> tuple[Any, int]:
        """What is read from the reply, or the last attempt's failure; and the attempts made."""
        for attempt in range(1, self.server.attempts + 1):
            result = self._once(*request)
            if not isinstance(result, Failure) or result.kind == "refused":
                break
            if attempt < self.server.attempts:
                time.sleep(self.server.backoff_seconds * 2 ** (attempt - 1))
        return result, attempt

    def _once(self, method: str, path: str, body: dict | None, read: Callable[[dict, Any], Any]):
        try:
            reply = self._pool.request(method, path, json=body, retries=False)
        except urllib3.exceptions.NewConnectionError as problem:  # to urllib3 a kind of time-out
            return Failure("connection", str(problem))
        except urllib3.exceptions.TimeoutError:
            return Failure("timeout", f"no answer within {self.server.timeout_seconds:g} s")
        except urllib3.exceptions.HTTPError as problem:
            return Failure("connection", str(problem))
        if reply.status in SETUP:
            raise UserError(
                f"{self.server.url}{path}: status {reply.status}: {_start(reply)}; correct the "
                "study's 'servers', or have that server answer without a key"
            )
        if reply.status != 200:
            busy = reply.status >= 500 or reply.status in BUSY
            return Failure("status" if busy else "refused", f"{reply.status}: {_start(reply)}")
        try:
            return read(reply.json(), body)
        except (ValueError, KeyError, IndexError, TypeError):
            return Failure("malformed", _start(reply))


def _files(folder: str | Path | None) -> dict | None:
    """Digests of a model folder's files; None where there is no folder that states them."""
    manifest = Path(folder) / MANIFEST if folder else None
    return read_json(manifest).get("files") if manifest and manifest.is_file() else None


def _start(reply) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(reply.data[:200].decode(errors="replace").split())


def _first_model(reply: dict, body: None) -> tuple[str, str | None]:
    model = reply["data"][0]
    name, root = model["id"], model.get("root")  # vLLM's own field: what `--model` was
    return name, root if isinstance(root, str) else None


def _completion(reply: dict, body: dict) -> Completion:
    choice = reply["choices"][0]
    tokens = [int(token) for token in choice["token_ids"]]
    logprobs = [float(value) for value in choice["logprobs"]["token_logprobs"]]
    if not 0 < len(tokens) == len(logprobs):
        raise ValueError("a completion needs tokens, and as many log-probabilities")
    return Completion(tokens, logprobs, tokens[-1] in body["stop_token_ids"])


def _first_logprobs(reply: dict, body: dict) -> list[float]:
    (values,) = reply["choices"][0]["logprobs"]["top_logprobs"]
    return [float(values[f"token_id:{token}"]) for token in body["logprob_token_ids"]]
