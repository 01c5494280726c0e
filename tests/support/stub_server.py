"""A model's server as a test has it: on the loopback, with replies that the test makes up."""

import contextlib
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pcqc.engines.base import Request, Sampling
from pcqc.engines.transformers import TransformersEngine
from pcqc_base.settings import Server
from pcqc_gpu.engines.chat_server import ChatEngine
from pcqc_gpu.engines.server import ServerEngine


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # by default 5: of more at once some try again after a second


class Stub:
    """A server on the loopback whose replies are a function of (path, body, attempt).

    A reply is (status, text) or (status, text, headers); None hangs until the server is closed.
    """

    def __init__(self, reply):
        self.reply = reply
        self.bodies: list[dict] = []
        self.attempts: Counter[str] = Counter()  # a body -> how often it came
        self.seen: list[tuple[str, str, str | None]] = []  # method, path, header with the key
        self.key: str | None = None  # without which it says 401
        self.served: dict = {"id": "the model"}  # what it says of its model
        self.paths: tuple[str, ...] = ()  # that it has, of those that are not posted to
        self.listing: tuple[int, str] | None = None  # in the place of a list of that
        self.drop_next = False  # the connection of the next request, without an answer
        self.drips: dict[tuple, str] = {}  # prompt -> the part of the answer that comes bytewise
        self._closing = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for a receipt of its head

            def do_GET(self):
                if stub.paths and self.path not in stub.paths:
                    return self.answer(404, "no such page")
                if self.admitted():
                    self.answer(*stub.listing or (200, json.dumps({"data": [stub.served]})))

            def admitted(self) -> bool:
                given = self.headers.get("Authorization")
                stub.seen.append((self.command, self.path, given))
                if stub.key is None or given == f"Bearer {stub.key}":
                    return True
                self.answer(401, json.dumps({"error": f"Incorrect API key provided: {given}"}))
                return False

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.admitted():
                    return
                same = json.dumps(body, sort_keys=True)
                attempt = stub.attempts[same]
                stub.attempts[same] += 1
                stub.bodies.append(body)
                answer = stub.reply(body, attempt)
                if stub.drop_next:
                    stub.drop_next, self.close_connection = False, True
                    return
                drips = stub.drips.get(tuple(body.get("prompt", ())))
                if answer is None:
                    stub._closing.wait(10)
                elif drips == "head":
                    self.drip(b"HTTP/1.1 200 OK\r\n")
                else:
                    self.answer(*answer, drips=drips)

            def answer(self, status, text, headers=(), drips=None):
                self.send_response(status)
                for header in headers:
                    self.send_header(*header)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.drip(text.encode()) if drips else self.wfile.write(text.encode())

            def drip(self, content):
                with contextlib.suppress(OSError):  # the reader has gone
                    for byte in content:
                        self.wfile.write(bytes([byte]))
                        stub._closing.wait(0.2)
                self.close_connection = True

            def log_message(self, *arguments):
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def engine(self, **settings) -> ServerEngine:
        patience = {"timeout_seconds": 2.0, "attempts": 3, "backoff_seconds": 0.01}
        server = Server(self.url, **(patience | settings))
        return ChatEngine(server) if server.model else ServerEngine(server)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def completion(tokens) -> tuple[int, str]:
    """A completion as vLLM gives it."""
    logprobs = {"token_logprobs": [-0.5] * len(tokens)}
    return 200, json.dumps({"choices": [{"token_ids": list(tokens), "logprobs": logprobs}]})


def chat(content, finish="stop", **choice) -> tuple[int, str]:
    """A chat completion; `choice` has further fields of its choice."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish, **choice}
    return 200, json.dumps({"object": "chat.completion", "choices": [choice]})


def chat_likeliest(tokens: dict[str, float]) -> tuple[int, str]:
    """A chat completion of one token, with the log-probabilities of the likeliest ones."""
    top = [{"token": t, "logprob": value, "bytes": None} for t, value in tokens.items()]
    first = max(top, key=lambda entry: entry["logprob"])
    return chat(first["token"], logprobs={"content": [first | {"top_logprobs": top}]})


def replies_of(model):
    """What vLLM's server would reply with this model, for a stub."""
    engine, lock = TransformersEngine(model), threading.Lock()

    def reply(body, attempt) -> tuple[int, str]:
        with lock:
            if ids := body.get("logprob_token_ids"):
                (values,) = engine.next_logprobs([body["prompt"]], [ids])
                top = {f"token_id:{i}": value for i, value in zip(ids, values, strict=True)}
                return 200, json.dumps({"choices": [{"logprobs": {"top_logprobs": [top]}}]})
            sampling = Sampling(
                body["temperature"],
                body["top_p"],
                body["max_tokens"],
                tuple(body["stop_token_ids"]),
            )
            request = Request(tuple(body["prompt"]), (body["seed"],))
            ((completed,),) = engine.generate([request], sampling)
        return completion(completed.tokens)

    return reply
