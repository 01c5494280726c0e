"""A chat model behind a URL as a player: any server with OpenAI's `/chat/completions`.

The API key comes from an environment variable and goes into the request's header, never into a
message, a file or a URL.
"""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from clinic_env.v2.chats import Chat

TRIES, WAIT = 5, 1.0  # tries of a request, and seconds before the second; each later one doubles it
AGAIN = frozenset({408, 429, 500, 502, 503, 504})
SHOWN = 200  # characters of a server's answer in a message


class Endpoint:
    """A chat model as a player.

    Args:
        url: up to `/v1`, such as `http://127.0.0.1:8000/v1`.
        model: its name; None takes the one that the server lists.
        key_variable: name of the environment variable with the API key; unset or empty sends none.
        body: fields of each request beside model and messages, such as `temperature`.
        parallel: most requests at a time.
        timeout: seconds that an answer may take.

    Raises:
        ValueError: the URL is none, or the server lists no model or several.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        key_variable: str = "OPENAI_API_KEY",
        body: Mapping[str, Any] | None = None,
        parallel: int = 8,
        timeout: float = 600.0,
    ):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("--model: give a URL such as http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("--model: a URL without a password or a key; that is a variable's")
        self.url, self.body, self.timeout = url.rstrip("/"), dict(body or {}), timeout
        self._variable = key_variable
        self._pool = ThreadPoolExecutor(parallel)
        # A redirected request would take its key along, to whatever host it is sent to.
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.model = model or self._only_model()

    def __call__(self, chats: Sequence[Chat]) -> list[str]:
        """The model's next texts; an answer without content is the empty text.

        Raises:
            ValueError: the server refuses, cannot be reached, or gives no chat completion.
        """
        return list(self._pool.map(self._text, chats))

    def _text(self, chat: Chat) -> str:
        answer = self._request("chat/completions", {"model": self.model, "messages": chat})
        try:
            text = answer["choices"][0]["message"].get("content") or ""
            text.encode()  # a ValueError for half of a surrogate pair
            return text
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            raise ValueError(
                f"{self.url}: its answer is no chat completion: check --model"
            ) from None

    def _only_model(self) -> str:
        try:
            names = [str(row["id"]) for row in self._request("models")["data"]]
        except (KeyError, TypeError):
            raise ValueError(f"{self.url}: it lists no models; give --model-name") from None
        if len(names) != 1:
            raise ValueError(f"{self.url}: it has {len(names)} models; give --model-name")
        return names[0]

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        for left in reversed(range(TRIES)):
            try:
                return self._once(path, body)
            except urllib.error.HTTPError as problem:
                reply = self._hidden(problem.read(SHOWN * 4).decode("utf-8", "replace"))[:SHOWN]
                if problem.code not in AGAIN or not left:
                    told = " ".join(reply.split())
                    raise ValueError(f"{self.url}: status {problem.code}: {told}") from None
            except (OSError, TimeoutError) as problem:
                if not left:
                    reply = self._hidden(str(problem))
                    raise ValueError(f"{self.url}: no answer: {reply}; is it running?") from None
            except ValueError:
                raise ValueError(f"{self.url}/{path}: its answer is not JSON") from None
            time.sleep(WAIT * 2 ** (TRIES - 1 - left))
        raise AssertionError("every try returns, raises or waits")

    def _once(self, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps({**self.body, **body}).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, headers)
        with self._opener.open(request, timeout=self.timeout) as answer:
            return json.loads(answer.read())

    def _key(self) -> str:
        return os.environ.get(self._variable, "").strip()

    def _hidden(self, text: str) -> str:
        """A server's words without the key, which some repeat."""
        return text.replace(self._key(), "***") if self._key() else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """No other request is made: the answer is an error with its status."""
