"""Servers of one model, and requests to whichever of them is up.

What a server answers depends on the request alone, so it does not matter which answers.
"""

import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, TimeoutError

from pcqc.engines.base import Failure
from pcqc.models.folder import MANIFEST
from pcqc_base.errors import UserError, one_line
from pcqc_base.settings import Server
from pcqc_base.system.files import read_json
from pcqc_gpu.engines.bounded_http import content_of, pool

# The same request may succeed later.
TRANSIENT = (408, 425, 429, *range(500, 600))
# No request can succeed: wrong address or no permission.
SETUP = (401, 403, 404, 405)
KEY = (401,)  # no key, or none that the server knows
# Of a server of chat completions that is asked for its models: it is there. It may list none, many,
# or not to this key.
ANSWERED = ("refused", "malformed")
LOOKED_AT, SHOWN = 4096, 200  # bytes and characters of a reply, for a message
UNREADABLE = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)
# (reply, body) -> result; raises one of `UNREADABLE`, a ValueError that says what is wrong
Read = Callable[[dict, Any], Any]

logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # the record counts retries


@dataclass
class Replica:
    """One of the servers.

    Attributes:
        url: its address.
        pool: connections to it.
        path: what comes before that of a request, such as `/v1`.
        model: name of the model that it serves.
        folder: model folder that it was started with; None if it does not say.
        asked: requests in progress.
        down: whether it failed to answer, or was not looked up yet: where no other is up, it is
            looked up before it is asked.
    """

    url: str
    pool: urllib3.HTTPConnectionPool
    path: str
    model: str = ""
    folder: str | None = None
    asked: int = 0
    down: bool = True


def _path(url: str, server: Server) -> str:
    """The path of an address as its interface has it; vLLM's may be given without `/v1`."""
    path = urlsplit(url).path.rstrip("/")
    return path or "/v1" if server.model else path.removesuffix("/v1") + "/v1"


def api_key(server: Server) -> str:
    """The key of a server, from the environment; empty where the study names no variable for one.

    Raises:
        UserError: the variable has none; the value is not shown.
    """
    if server.key is None:
        return ""
    key = os.environ.get(server.key, "").strip()
    if not re.fullmatch(r"[!-~]+", key):
        what = "holds a blank, or a letter that no key has" if key else "is not set"
        raise UserError(
            f"{server.url}: the environment variable {server.key}, which the study names for its "
            f"API key, {what}; export it in the shell that starts the study"
        )
    return key


class Replicas:
    """The servers of a role, all down until they are looked up.

    Args:
        server: addresses, time-out, retries and the key's variable; the key itself goes into the
            requests' headers alone.

    Attributes:
        own: folder of the role's model, with which those of the servers are compared.
    """

    def __init__(self, server: Server):
        self.server, self._key = server, api_key(server)
        self.own: Path | None = None
        self._lock = Lock()
        self.all = [Replica(url, pool(url, server), _path(url, server)) for url in server.urls]
        self._retry = urllib3.Retry(
            total=server.attempts - 1,
            backoff_factor=server.backoff_seconds,
            backoff_jitter=server.backoff_seconds,
            retry_after_max=int(server.timeout_seconds),
        )

    def look_up(self) -> None:
        """Look at those that are down; while another is up, each is asked once.

        Raises:
            UserError: none is up, or one has other weights than the role.
        """
        for replica in [replica for replica in self.all if replica.down]:
            retry = self._retry if all(r.down for r in self.all) else self._retry.new(total=0)
            failure, _ = _repeated(partial(self._look_up, replica), retry)
        if all(replica.down for replica in self.all):
            raise UserError(
                f"{replica.url}: it serves no model ({failure}); start the server, or correct "
                "the study's 'servers'"
            )

    def check(self, replica: Replica) -> None:
        """UserError if a server names a folder of this machine with other files than the role's."""
        served, wanted = _files(replica.folder), _files(self.own)
        if served and wanted and served != wanted:
            raise UserError(
                f"{replica.url}: serves {replica.folder}, whose weights are not the role's; "
                f"restart it with {self.own}, or correct the study's 'servers'"
            )

    def request(self, path: str, body: dict, read: Read) -> tuple[Any, int]:
        """What `read` makes of the reply, or the last attempt's failure; and the retries made."""
        replica: Replica | None = None

        def attempt() -> tuple[Any, Any]:
            nonlocal replica
            replica = self._choose(but=replica)
            try:
                return self._ask(replica, path, body, read)
            finally:
                with self._lock:
                    replica.asked -= 1

        return _repeated(attempt, self._retry)

    def _choose(self, but: Replica | None) -> Replica:
        """The server to ask next: if possible one that is up and has not just failed.

        Of these it is the least asked. It is counted as asked under the same lock, since threads
        choose side by side: without that, all of them would choose the first server.
        """
        with self._lock:
            up = [replica for replica in self.all if not replica.down] or self.all
            others = [replica for replica in up if replica is not but]
            replica = min(others or up, key=lambda replica: replica.asked)
            replica.asked += 1
        return replica

    def _ask(self, replica: Replica, path: str, body: dict, read: Read) -> tuple[Any, Any]:
        """One attempt; a server that was down is looked up before."""
        if replica.down:
            failure, reply = self._look_up(replica)
            if failure:
                return failure, reply
        result, reply = self._try(replica, path, body, read)
        if isinstance(result, Failure) and result.kind in ("timeout", "connection"):
            replica.down = True
            if result.kind == "connection":  # it may have dropped no more than this one
                self._look_up(replica)
        return result, reply

    def _look_up(self, replica: Replica) -> tuple[Failure | None, Any]:
        """Learn which model a server has, and that it is the role's; or why it does not say."""
        answer, reply = self._try(replica, "/models", None, _first_model)
        if (chat := self.server.model) and (
            not isinstance(answer, Failure) or answer.kind in ANSWERED
        ):
            answer = chat, None
        if isinstance(answer, Failure):
            return answer, reply
        replica.model, replica.folder = answer
        self.check(replica)
        replica.down = False
        return None, None

    def _try(self, replica: Replica, path: str, body: dict | None, read: Read) -> tuple[Any, Any]:
        """One attempt: its result or failure, and the reply that may say how long to wait."""
        content, send = b"", body and body | {"model": replica.model}
        path = replica.path + path
        options: dict[str, Any] = {"retries": False, "redirect": False, "preload_content": False}
        try:
            method, headers = "POST" if body else "GET", self._headers
            reply = replica.pool.request(method, path, json=send, headers=headers, **options)
            content = content_of(reply)
            if reply.status != 200:
                return self._refusal(replica, path, reply.status, content), reply
            return read(json.loads(content), body), None
        except HTTPError as problem:
            return self._failure(problem), None
        except UNREADABLE as problem:
            return Failure("malformed", self._wrong(problem, content)), None

    def _failure(self, problem: Exception) -> Failure:
        # To urllib3 a connection that is refused is a kind of time-out.
        refused = isinstance(problem, NewConnectionError)
        if isinstance(problem, TimeoutError) and not refused:
            return Failure("timeout", f"no answer within {self.server.timeout_seconds:g} s")
        return Failure("connection", one_line(str(problem)))

    def _refusal(self, replica: Replica, path: str, status: int, content: bytes) -> Failure:
        start = self._start(content)
        listing = self.server.model and path.endswith("/models")
        if status in (KEY if listing else SETUP):
            remedy = "correct the study's 'servers'"
            if status in KEY:
                remedy = "name the variable with its API key, as 'key' of that server"
            if self._key:
                remedy += f", or the key in {self.server.key}"
            address = replica.url.removesuffix(urlsplit(replica.url).path)
            raise UserError(f"{address}{path}: status {status}: {start}; {remedy}")
        return Failure("status" if status in TRANSIENT else "refused", f"{status}: {start}")

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _wrong(self, problem: Exception, content: bytes) -> str:
        """What is wrong with a reply, and its beginning."""
        if isinstance(problem, json.JSONDecodeError | UnicodeDecodeError):
            what = "no JSON"
        elif isinstance(problem, ValueError):
            what = one_line(self._without_key(str(problem)), 100)
        else:
            what = "not a completion"
        return f"{what}: {self._start(content)}" if content else what

    def _start(self, content: bytes) -> str:
        """The beginning of a reply, on one line."""
        text = self._without_key(content[:LOOKED_AT].decode(errors="replace"))
        return one_line(" ".join(text[:SHOWN].split()))

    def _without_key(self, text: str) -> str:
        """A server's words; some repeat the key that they were given."""
        return text.replace(self._key, "***") if self._key else text


def _repeated(attempt: Callable[[], tuple[Any, Any]], retry: urllib3.Retry) -> tuple[Any, int]:
    """The result of the last attempt, and the retries made.

    Args:
        attempt: gives its result or failure, and the reply that may say how long to wait.
        retry: how many may follow, and when.
    """
    while True:
        result, reply = attempt()
        if not isinstance(result, Failure) or result.kind == "refused" or not retry.total:
            return result, len(retry.history)
        retry = retry.increment("POST", "", reply)
        try:
            retry.sleep(reply)
        except (HTTPError, ValueError, OverflowError):  # its 'Retry-After' is no number of seconds
            retry.sleep()


def _files(folder: str | Path | None) -> dict | None:
    """Digests of a model folder's files; None if it is no folder with a manifest."""
    manifest = Path(folder) / MANIFEST if folder else None
    return read_json(manifest).get("files") if manifest and manifest.is_file() else None


def _first_model(reply: dict, body: None) -> tuple[str, str | None]:
    model = reply["data"][0]
    name, root = model["id"], model.get("root")  # vLLM's own field: what `--model` was
    if not isinstance(name, str):
        raise ValueError(f"{name!r} as a model's name")
    return name, root if isinstance(root, str) else None
