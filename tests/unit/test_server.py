"""Served roles: what a server may do to us, and that nothing of it is trained on."""

import dataclasses
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from helpers import make_case, make_tokenizer, scripted_setting, tiny_model

from pcqc.config import Decoding, Method, Server, Servers, load_study
from pcqc.consultation import roll_out
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.engines.server import ServerEngine
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.jobs.setup import make_engine, role_weights
from pcqc.methods.draw import draw_groups
from pcqc.models import save_model
from pcqc.roles import Patient, Scorer

STOP = 7
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=4, stop=STOP)


class Stub:
    """A server on the loopback whose replies are a function of (path, body, attempt).

    A reply is (status, text); None hangs until the server is closed.
    """

    def __init__(self, reply):
        self.bodies: list[dict] = []
        self.served: dict = {"id": "the model"}  # what it says of its model
        self._closing = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer(200, json.dumps({"data": [stub.served]}))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                attempt = sum(seen == body for seen in stub.bodies)
                stub.bodies.append(body)
                found = reply(body, attempt)
                if found is None:
                    stub._closing.wait(10)
                else:
                    self.answer(*found)

            def answer(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def engine(self, **settings) -> ServerEngine:
        patience = {"timeout_seconds": 2.0, "attempts": 3, "backoff_seconds": 0.01}
        return ServerEngine(Server(self.url, **(patience | settings)))

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def serve():
    """Starts stubs, and stops them after the test."""
    stubs = []

    def start(reply) -> Stub:
        stubs.append(Stub(reply))
        return stubs[-1]

    yield start
    for stub in stubs:
        stub.close()


def said(tokens) -> tuple[int, str]:
    """A completion as vLLM gives it."""
    logprobs = {"token_logprobs": [-0.5] * len(tokens)}
    return 200, json.dumps({"choices": [{"token_ids": list(tokens), "logprobs": logprobs}]})


def one(engine: ServerEngine, prompt=(1, 2)):
    """The result for one prompt, asked beside one that is answered."""
    results = engine.generate([Request(prompt, (6,)), Request((9,), (8,))], SAMPLING)
    assert isinstance(results[1][0], Completion)
    return results[0][0]


def unless(prompt, reply):
    """A stub's replies: `reply` to that prompt, a completion to others."""
    return lambda body, attempt: (
        reply(attempt) if body["prompt"] == list(prompt) else said([3, STOP])
    )


def test_token_ids_go_there_and_come_back(serve):
    stub = serve(lambda body, attempt: said([body["seed"] % 5 + 10, STOP]))
    engine = stub.engine()
    groups = engine.generate([Request((1, 2), (4, 6)), Request((3,), (2**64 - 1,))], SAMPLING)
    assert [[c.tokens for c in group] for group in groups] == [[[12, 7], [13, 7]], [[12, 7]]]
    assert groups[0][0] == Completion([12, STOP], [-0.5, -0.5], True)
    (body,) = [b for b in stub.bodies if b["prompt"] == [3]]
    assert body["seed"] == 2**63 - 1
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 4)
    assert (body["stop_token_ids"], body["model"]) == ([STOP], "the model")
    assert engine.generate([], SAMPLING) == []
    assert not engine.counts["retries"]


def test_named_tokens_are_read_in_the_order_asked_for(serve):
    values = {"token_id:5": -1.0, "token_id:9": -2.0}
    reply = json.dumps({"choices": [{"logprobs": {"top_logprobs": [values]}}]})
    engine = serve(lambda body, attempt: (200, reply)).engine()
    assert engine.next_logprobs([[1], [2]], [[9, 5], [5]]) == [[-2.0, -1.0], [-1.0]]


def test_what_passes_is_tried_again(serve):
    replies = [(503, "loading"), (429, "slow down"), (200, "{"), said([3, STOP])]
    engine = serve(unless((1, 2), lambda attempt: replies[attempt])).engine(attempts=4)
    assert one(engine).tokens == [3, STOP]
    assert engine.counts == {"retries": 3}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (None, "timeout"),
        ((500, "it\nbroke"), "status"),
        ((200, "not JSON"), "malformed"),
        ((200, '{"choices": []}'), "malformed"),
        ((200, '{"choices": [{"token_ids": [1, 2], "logprobs": null}]}'), "malformed"),
        (said([]), "malformed"),
    ],
)
def test_what_does_not_pass_is_a_failure_of_one_request(serve, reply, kind):
    stub = serve(unless((1, 2), lambda attempt: reply))
    engine = stub.engine(timeout_seconds=0.3 if kind == "timeout" else 2.0)
    failure = one(engine)
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert "\n" not in str(failure)
    assert engine.counts == {"retries": 2, kind: 1}
    assert sum(body["prompt"] == [1, 2] for body in stub.bodies) == 3


def test_what_the_server_refuses_is_not_repeated(serve):
    stub = serve(unless((1, 2), lambda attempt: (400, "prompt too long")))
    engine = stub.engine()
    assert one(engine) == Failure("refused", "400: prompt too long")
    assert engine.counts == {"refused": 1, "retries": 0}


def test_counts_start_afresh_once_taken(serve):
    replies = {1: [(503, "loading"), said([3, STOP])], 2: [(400, "no")]}
    stub = serve(
        lambda body, attempt: replies.get(body["prompt"][0], [said([3, STOP])] * 2)[attempt]
    )
    engine = stub.engine()
    engine.generate([Request((n,), (n,)) for n in (1, 2, 3)], SAMPLING)
    assert engine.take_counts() == {"retries": 1, "failures": 1}
    assert engine.take_counts() == {"retries": 0, "failures": 0}


def test_attempts_wait_longer_and_longer(serve):
    times = []

    def reply(attempt):
        times.append(time.perf_counter())
        return (500, "")

    one(serve(unless((1, 2), reply)).engine(backoff_seconds=0.1))
    first, second = np.diff(times)
    assert first >= 0.1
    assert second >= 0.2


def test_a_server_that_answers_nothing_stops_the_run(serve):
    engine = serve(lambda body, attempt: (503, "gone")).engine()
    with pytest.raises(UserError, match=r"2 of 2 requests failed after 3 attempts .*503: gone"):
        engine.generate([Request((1,), (1, 2))], SAMPLING)


def test_a_server_that_is_not_there_or_not_ours_is_named(serve):
    stub = serve(lambda body, attempt: (404, "no such model"))
    with pytest.raises(UserError, match="status 404: no such model"):
        stub.engine().generate([Request((1,), (1,))], SAMPLING)
    stub.close()
    with pytest.raises(UserError, match=rf"{stub.url}: .*connection: .*see to the server"):
        stub.engine()


def model_folder(path: Path, seed: int) -> Path:
    save_model(path, tiny_model(seed), make_tokenizer(), {"seed": 0})
    return path


def test_a_server_of_other_weights_is_refused_where_that_can_be_told(serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-mini")
    stub = serve(lambda body, attempt: said([3, STOP]))
    study = dataclasses.replace(study, servers=Servers(patient=Server(stub.url)))
    weights = role_weights(study, "patient")
    own = model_folder(weights.folder, 0)
    other = model_folder(tmp_path / "other", 1)
    copy = model_folder(tmp_path / "copy", 0)
    stub.served = {"id": "patient", "root": str(other)}
    with pytest.raises(UserError, match=f"serves {other}, whose weights are not") as error:
        make_engine(study, "patient", weights)
    assert f"{stub.url}: " in str(error.value)
    assert f"start it with {own}" in str(error.value)
    unknown = ("not/here", "Qwen/Qwen3-8B", None, 5)
    for root in (str(own), str(tmp_path / own), str(copy), *unknown):
        stub.served["root"] = root
        assert make_engine(study, "patient", weights).model == "patient"


def failing_patient(setting, serve, fails) -> Patient:
    """A served patient that says "No cough." and fails where `fails(question prompt)`."""

    def reply(body, attempt):
        if fails(setting.chat.decode(body["prompt"])):
            return 400, "no"
        return said([*setting.chat.encode("No cough."), setting.chat.end_of_turn])

    decoding = Decoding(temperature=1.0, top_p=1.0, max_tokens=20)
    return Patient(serve(reply).engine(), setting.chat, decoding)


def served_setting(serve, cases, fails, name):
    """Actors that ask once and then answer B, with a served patient."""

    def say(case_id, rollout, turn, candidate):
        return "Final Answer: B" if turn else f"Question: {case_id} number {rollout}{candidate}?"

    setting = scripted_setting(say, cases, name=name)
    setting.patient.engine = failing_patient(setting, serve, fails).engine
    return setting


def test_a_failed_answer_ends_the_consultation_and_its_case_is_not_trained_on(serve):
    cases = [make_case(i) for i in range(3)]
    for failing in ("case-1 number 10", "case-1 number 02"):  # an executed question, a candidate
        setting = served_setting(serve, cases, lambda p, f=failing: f in p, "1/update/1")
        rolled = roll_out(setting, cases, rollouts=2, candidates=3, seed=1, stage="update/1")
        ended = [[c.ending for c in row] for row in rolled]
        assert ended[0] == ended[2] == ["answer", "answer"]
        assert sorted(ended[1]) == ["answer", "patient_failed"]
        method = Method(title="", terminal_group=2, question_group=3, kl_coefficient=0.0)
        drawn = draw_groups(setting, None, method, cases, seed=1, update=1)
        assert [case.case_id for case in drawn.cases] == ["case-0", "case-2"]
        assert np.shape(drawn.rewards) == (2, 2)
        assert drawn.figures["failures/patient"] == 1
        texts = [setting.chat.decode(s.tokens) for s in drawn.sequences]
        assert texts
        assert not any("case-1" in text for text in texts)


def test_an_update_without_any_answer_and_an_evaluation_with_a_gap_are_refused(serve):
    cases = [make_case(i) for i in range(2)]
    method = Method(title="", terminal_group=2, kl_coefficient=0.0)
    setting = served_setting(serve, cases, lambda prompt: True, "1/update/1")
    with pytest.raises(UserError, match="failed in every case"):
        draw_groups(setting, None, method, cases, seed=1, update=1)
    setting = served_setting(serve, cases, lambda p: "case-1" in p, "1/evaluation/dev")
    with pytest.raises(UserError, match=r"failed in 1 answers of 2 consultations \(refused"):
        evaluate(setting, cases, seed=1, benchmark="dev", labels={})


def test_a_state_that_the_scorer_failed_on_has_no_question_credit(serve):
    cases = [make_case(i) for i in range(2)]
    setting = served_setting(serve, cases, lambda prompt: False, "1/update/1")

    def reply(body, attempt):
        if "case-1 number 01" in setting.chat.decode(body["prompt"]):
            return 400, "no"
        values = {f"token_id:{t}": -1.0 - i for i, t in enumerate(body["logprob_token_ids"])}
        return 200, json.dumps({"choices": [{"logprobs": {"top_logprobs": [values]}}]})

    scorer = Scorer(serve(reply).engine(), setting.chat.tokenizer)
    method = Method(
        title="", terminal_group=2, question_group=2, question_credit="same_state", beta=1.0
    )
    drawn = draw_groups(setting, scorer, method, cases, seed=1, update=1)
    assert [group.case.case_id for group in drawn.groups] == ["case-0"]
    assert drawn.figures["failures/scorer"] == 1
    assert len(drawn.cases) == 2
