"""A chat model behind a URL: a stub server on this machine, the key, and what goes wrong."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clinic_env.__main__ import main
from clinic_env.v2 import NAMES, RULES, Endpoint, doctor, endpoint, measure

DRAW = "11fe" * 8
KEY = "sk-secret-0123456789"


class Stub:
    """A server with `/v1/models` and `/v1/chat/completions`, and what it was asked.

    Attributes:
        text: a chat -> the model's words, or a list of bodies to answer first.
        first: (status, body) of the first answers.
    """

    def __init__(self):
        self.play = doctor(RULES["options in order"])
        self.first, self.models = [], [{"id": "stub"}]
        self.asked, self.keys, self.content = [], set(), lambda words: words
        stub = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def say(self, status, body, **headers):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": len(data), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                stub.keys.add(self.headers.get("Authorization"))
                self.say(200, {"data": stub.models})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.keys.add(self.headers.get("Authorization"))
                if stub.first:
                    status, answer = stub.first.pop(0)
                    headers = {"Location": f"{stub.url}/elsewhere"} if status == 302 else {}
                    return self.say(status, answer, **headers)
                stub.asked.append(body)
                (words,) = stub.play([body["messages"]])
                message = {"role": "assistant", "content": stub.content(words)}
                return self.say(200, {"choices": [{"index": 0, "message": message}]})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(endpoint, "WAIT", 0.0)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    one = Stub()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield one
    one.server.shutdown()
    one.server.server_close()
    thread.join()


def test_a_model_plays_what_its_words_say(stub):
    """The score of the same doctor without a server; messages are all that was sent."""
    player = Endpoint(stub.url, body={"temperature": 0}, parallel=4)
    here = measure(stub.play, NAMES[0], 6, draw=DRAW)
    assert measure(player, NAMES[0], 6, draw=DRAW) == here
    assert stub.keys == {f"Bearer {KEY}"}
    for body in stub.asked:
        assert set(body) == {"model", "messages", "temperature"}
        assert (body["model"], body["temperature"]) == ("stub", 0)
        assert all(set(message) == {"role", "content"} for message in body["messages"])


def test_the_command_prints_a_row_and_never_the_key(stub, capfd):
    given = ["leaderboard", "--alone", "--cases", "3", "--model", stub.url]
    assert main([*given, "--world", NAMES[0], "--world", NAMES[3]]) == 0
    told = capfd.readouterr()
    assert re.search(r"^\| stub \| -?\d+\.\d ± \d+\.\d \|", told.out, re.M)
    assert KEY not in told.out + told.err


def test_without_a_key_none_is_sent(stub, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OTHER", "sk-other")
    measure(Endpoint(stub.url), NAMES[0], 2, draw=DRAW)
    assert stub.keys == {None}
    measure(Endpoint(stub.url, key_variable="OTHER"), NAMES[0], 2, draw=DRAW)
    assert stub.keys == {None, "Bearer sk-other"}


def test_a_busy_server_is_asked_again(stub):
    stub.first = [(429, {}), (503, b"busy"), (500, {})]
    assert measure(Endpoint(stub.url), NAMES[0], 2, draw=DRAW).questions > 0


def test_thoughts_and_answers_without_content_are_turns(stub):
    stub.content = lambda words: None
    assert measure(Endpoint(stub.url), NAMES[0], 2, draw=DRAW).refused == 1
    stub.content = lambda words: f"<think>Any olive spots? Final Answer: A</think>\n{words}"
    assert measure(Endpoint(stub.url), NAMES[0], 2, draw=DRAW).refused == 0


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ([(401, f"wrong key {KEY}".encode())], r"status 401: wrong key \*\*\*$"),
        ([(302, b"moved")], "status 302: moved"),
        ([(200, b"<html>")], "/chat/completions: its answer is not JSON"),
        ([(200, {"error": "no"})], "its answer is no chat completion: check --model"),
        ([(200, {"choices": []})], "its answer is no chat completion"),
        ([(503, b"busy")] * 9, "status 503: busy"),
    ],
)
def test_what_a_server_does_wrong_is_one_line_without_the_key(stub, first, message):
    stub.first = first
    with pytest.raises(ValueError, match=message) as raised:
        Endpoint(stub.url, "stub", parallel=1)([[{"role": "user", "content": "hm"}]])
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_with_several_models_wants_a_name(stub, capsys):
    stub.models = [{"id": "one"}, {"id": "two"}]
    assert main(["leaderboard", "--model", stub.url]) == 2
    assert "it has 2 models; give --model-name" in capsys.readouterr().err
    assert Endpoint(stub.url, "two").model == "two"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "give a URL such as http://127.0.0.1:8000/v1"),
        ("file:///etc/passwd", "give a URL such as"),
        ("https://me:pass@127.0.0.1/v1", "a URL without a password or a key"),
        ("https://127.0.0.1/v1?key=abc", "a URL without a password or a key"),
    ],
)
def test_a_url_that_is_none_is_told(url, message):
    with pytest.raises(ValueError, match=message) as raised:
        Endpoint(url)
    assert "pass@" not in str(raised.value)


def test_a_server_that_is_not_there_is_told(stub):
    stub.server.server_close()
    with pytest.raises(ValueError, match=r"no answer: .*; is it running"):
        Endpoint(stub.url, "stub")([[{"role": "user", "content": "hm"}]])
