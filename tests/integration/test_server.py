"""Served roles: what a server may do to us, and that nothing of it is trained on."""

import dataclasses
import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warm
from helpers import (
    make_case,
    model_folder,
    scripted_context,
    scripted_scorer,
)
from stub_server import completion

from pcqc.consultation import roll_out
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.evaluation.benchmark import evaluate
from pcqc.jobs.make_roles import Weights, make_engine
from pcqc.methods.base import Services
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.roles import Patient, Scorer
from pcqc_base.errors import UserError
from pcqc_base.settings import Decoding, Server
from pcqc_gpu.engines.server import ServerEngine
from pcqc_study.run_job import placed
from pcqc_study.study_file import load_study

STOP = 7
VOCABULARY = 120  # of the tiny model
GRPO = Grpo("Test", "grpo", terminal_group=2)
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=4, stop=(STOP,))


def result_of(engine: ServerEngine):
    """The result for the prompt (1, 2), asked beside another that is answered."""
    results = engine.generate([Request((1, 2), (6,)), Request((9,), (8,))], SAMPLING)
    assert isinstance(results[1][0], Completion)
    return results[0][0]


def unless(prompt, reply):
    """A stub's replies: `reply` to that prompt, a completion to others."""
    return lambda body, attempt: (
        reply(attempt) if body["prompt"] == list(prompt) else completion([3, STOP])
    )


def test_token_ids_go_there_and_come_back(serve):
    stub = serve(lambda body, attempt: completion([body["seed"] % 5 + 10, STOP]))
    engine = stub.engine()
    groups = engine.generate([Request((1, 2), (4, 6)), Request((3,), (2**64 - 1,))], SAMPLING)
    assert [[c.tokens for c in group] for group in groups] == [[[12, 7], [13, 7]], [[12, 7]]]
    assert groups[0][0] == Completion([12, STOP], [-0.5, -0.5])
    (body,) = [b for b in stub.bodies if b["prompt"] == [3]]
    assert body["seed"] == 2**63 - 1
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 4)
    assert (body["stop_token_ids"], body["model"]) == ([STOP], "the model")
    assert engine.generate([], SAMPLING) == []
    assert not engine.counts["retries"]


def test_every_token_that_ends_a_response_is_sent_and_believed(serve):
    also = STOP + 1
    sampling = dataclasses.replace(SAMPLING, stop=(STOP, also))
    replies = {1: [3, also], 2: [3, STOP], 3: [3, also, 3]}
    stub = serve(lambda body, attempt: completion(replies[body["prompt"][0]]))
    requests = [Request((prompt,), (4,)) for prompt in replies]
    *ended, (other,) = stub.engine().generate(requests, sampling)
    assert [c.tokens for (c,) in ended] == [replies[1], replies[2]]
    assert (other.kind, "tokens after the one" in other.message) == ("malformed", True)
    assert {tuple(body["stop_token_ids"]) for body in stub.bodies} == {(STOP, also)}


def test_named_tokens_are_read_in_the_order_asked_for(serve):
    values = {"token_id:5": -1.0, "token_id:9": -2.0}
    reply = json.dumps({"choices": [{"logprobs": {"top_logprobs": [values]}}]})
    engine = serve(lambda body, attempt: (200, reply)).engine()
    assert engine.next_logprobs([[1], [2]], [[9, 5], [5]]) == [[-2.0, -1.0], [-1.0]]


def test_what_passes_is_tried_again(serve):
    replies = [(503, "loading"), (429, "slow down"), (200, "{"), completion([3, STOP])]
    engine = serve(unless((1, 2), lambda attempt: replies[attempt])).engine(attempts=4)
    assert result_of(engine).tokens == [3, STOP]
    assert engine.counts == {"retries": 3}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (None, "timeout"),
        ((500, "it\nbroke"), "status"),
        ((200, "not JSON"), "malformed"),
        ((200, '{"choices": [{"token_ids": [1, 2], "logprobs": null}]}'), "malformed"),
        (completion([]), "malformed"),
        ((200, "[" * 100_000), "malformed"),
        ((200, completion([3])[1].replace("-0.5", "NaN")), "malformed"),
    ],
)
def test_what_does_not_pass_is_a_failure_of_one_request(serve, reply, kind):
    stub = serve(unless((1, 2), lambda attempt: reply))
    engine = stub.engine(timeout_seconds=0.3 if kind == "timeout" else 2.0)
    failure = result_of(engine)
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert "\n" not in str(failure)
    assert engine.counts == {"retries": 2, kind: 1}
    assert sum(body["prompt"] == [1, 2] for body in stub.bodies) == 3


def test_an_endless_reply_is_not_read_to_its_end(serve, monkeypatch):
    monkeypatch.setattr("pcqc_gpu.engines.bounded_http.MAX_REPLY", 300)
    engine = serve(unless((1, 2), lambda attempt: completion([3] * 100))).engine(concurrent=1)
    assert str(result_of(engine)) == "malformed: a reply of more than 300 bytes"
    assert engine.counts == {"retries": 2, "malformed": 1}
    assert isinstance(engine.generate([Request((9,), (8,))], SAMPLING)[0][0], Completion)


def choice(tokens, logprobs) -> tuple[int, str]:
    """A reply with one completion."""
    logprobs = {"token_logprobs": logprobs}
    return 200, json.dumps({"choices": [{"token_ids": tokens, "logprobs": logprobs}]})


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        (completion([VOCABULARY]), f"token id {VOCABULARY} of a vocabulary of {VOCABULARY}"),
        (completion([3, -1]), f"token id -1 of a vocabulary of {VOCABULARY}"),
        (completion([5.9]), f"token id 5.9 of a vocabulary of {VOCABULARY}"),
        (completion([True]), f"token id True of a vocabulary of {VOCABULARY}"),
        (completion(["3"]), f"token id '3' of a vocabulary of {VOCABULARY}"),
        (completion([10**30]), f"token id {10**30} of a vocabulary of {VOCABULARY}"),
        (completion([3] * 5000), "5000 tokens, 1 to 4 were asked for"),
        (completion([]), "0 tokens, 1 to 4 were asked for"),
        (completion([3, STOP, 3]), "tokens after the one that ends a completion"),
        (choice([3, STOP], [-0.5]), "1 log-probabilities of 2 tokens"),
        (choice([3], [5.0]), "5.0 as a log-probability"),
        (choice([3], [None]), "None as a log-probability"),
        (choice([3], [True]), "True as a log-probability"),
        (choice([3], [float("-inf")]), "-inf as a log-probability"),
        (choice("3", [-0.5]), "'3' in place of a list"),
        ((200, '{"choices": []}'), "not a completion"),
        ((200, '"\\u001b[2J"'), "not a completion"),
        ((200, "<html>\x1b[2J"), "no JSON: <html>\\x1b[2J"),
    ],
)
def test_an_answer_that_no_model_can_have_given_is_malformed(serve, tmp_path, reply, wrong):
    """Whatever a server says is checked before it becomes a completion."""
    engine = serve(unless((1, 2), lambda attempt: reply)).engine(attempts=1)
    engine.check_weights(model_folder(tmp_path / "patient", 0))
    failure = result_of(engine)
    assert isinstance(failure, Failure)
    assert failure.kind == "malformed"
    assert failure.message.startswith(wrong)
    assert failure.message.isprintable()


@pytest.mark.parametrize("value", [0.5, float("nan"), None, False, "-1"])
def test_a_log_probability_that_is_none_is_malformed(serve, value):
    def reply(body, attempt):
        values = {"token_id:5": value if body["prompt"] == [1] else -1.0}
        return 200, json.dumps({"choices": [{"logprobs": {"top_logprobs": [values]}}]})

    failure, answered = serve(reply).engine().next_logprobs([[1], [2]], [[5], [5]])
    assert answered == [-1.0]
    assert failure.kind == "malformed"
    assert failure.message.startswith(f"{value!r} as a log-probability")


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_server_that_drips_its_answer_is_out_of_time(serve, part):
    """The time-out is of the whole attempt: no pause between two bytes is as long."""
    status, text = completion([3, STOP])
    stub = serve(unless((1, 2), lambda attempt: (status, text)))
    stub.drips = {(1, 2): part}
    engine = stub.engine(attempts=1, timeout_seconds=0.6)
    start = time.monotonic()
    assert result_of(engine) == Failure("timeout", "no answer within 0.6 s")
    assert time.monotonic() - start < 10  # of 16 for the answer, bytewise


def test_what_the_server_refuses_is_not_repeated_and_counted_once(serve):
    stub = serve(unless((1, 2), lambda attempt: (400, "prompt too long")))
    engine = stub.engine()
    assert result_of(engine) == Failure("refused", "400: prompt too long")
    assert engine.counts == {"refused": 1, "retries": 0}
    assert engine.take_faults() == {"retries": 0, "failures": 1}
    assert engine.take_faults() == {"retries": 0, "failures": 0}


@pytest.mark.parametrize("wait", ["1.5", "20s", "soon", "9" * 400])
def test_a_wait_that_is_no_whole_number_is_our_own(serve, wait):
    replies = [(429, "slow down", [("Retry-After", wait)]), completion([3, STOP])]
    stub = serve(unless((1, 2), lambda attempt: replies[attempt]))
    engine = stub.engine(timeout_seconds=0.5)  # the longest wait
    assert result_of(engine).tokens == [3, STOP]


def test_a_request_that_fails_alone_is_the_servers_fault_only_where_it_answered_nothing(serve):
    """A call may hold a single request, such as the last dialogue's of an update."""
    engine = serve(unless((1, 2), lambda attempt: (200, "{}"))).engine()
    fails = [Request((1, 2), (6,))]
    result_of(engine)
    assert isinstance(engine.generate(fails, SAMPLING)[0][0], Failure)
    engine.take_faults()
    with pytest.raises(
        UserError, match=r"1 of 1 requests failed after 3 attempts each \(malformed"
    ):
        engine.generate(fails, SAMPLING)


def test_retries_back_off_and_wait_as_long_as_the_server_asks(serve, monkeypatch):
    later = [(429, "slow down", [("Retry-After", seconds)]) for seconds in ("3", "60")]
    replies = [(500, ""), (500, ""), (500, ""), *later, completion([3, STOP])]
    engine = serve(unless((1, 2), lambda attempt: replies[attempt])).engine(
        attempts=6, timeout_seconds=5.0, backoff_seconds=0.1
    )
    waits = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", waits.append)
    assert result_of(engine).tokens == [3, STOP]
    assert 0.2 <= waits[0] <= 0.3
    assert 0.4 <= waits[1] <= 0.5
    assert waits[2:] == [3, 5]  # no longer than one attempt may last
    assert engine.take_faults() == {"retries": 5, "failures": 0}


STOPPED = """
from pcqc.engines.base import Request, Sampling
from pcqc_base.settings import Server
from pcqc_gpu.engines.server import ServerEngine
import sys
engine = ServerEngine(Server(sys.argv[1], timeout_seconds=60.0, concurrent=2))
for number in range(20):
    engine.submit(Request((number,), (2,)), Sampling(0.7, 0.9, 4, (7,)))
while engine.replicas.all[0].asked < 2:
    pass
raise KeyboardInterrupt
"""


def test_a_process_that_stops_waits_for_no_answer_and_sends_nothing_more(serve, tmp_path):
    stub = serve(lambda body, attempt: None)
    (tmp_path / "stopped.py").write_text(STOPPED)
    command = [warm.python(), "-m", "stopped", stub.url]
    start = time.monotonic()
    stopped = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=30)
    assert stopped.stderr.endswith(b"KeyboardInterrupt\n")
    assert len(stub.bodies) <= 2
    assert time.monotonic() - start < 30  # of sixty, more than once


def test_a_server_that_answers_nothing_stops_the_run(serve):
    engine = serve(lambda body, attempt: (503, "gone")).engine()
    with pytest.raises(UserError, match=r"2 of 2 requests failed after 3 attempts .*503: gone"):
        engine.generate([Request((1,), (1, 2))], SAMPLING)


def test_a_server_that_is_not_there_or_not_ours_is_named(serve):
    stub = serve(lambda body, attempt: (404, "no such model"))
    with pytest.raises(UserError, match="status 404: no such model"):
        stub.engine().generate([Request((1,), (1,))], SAMPLING)
    stub.close()
    with pytest.raises(UserError, match=rf"{stub.url}: .*connection: .*start the server"):
        stub.engine()


def test_a_server_of_other_weights_is_refused_where_that_can_be_told(serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-mini")
    stub = serve(lambda body, attempt: completion([3, STOP]))
    server = Server(stub.url)
    task = SimpleNamespace(settings=study, where=placed(study))
    weights = Weights(Path("models/patient"), "float32")
    own = model_folder(weights.folder, 0)
    other = model_folder(tmp_path / "other", 1)
    copy = model_folder(tmp_path / "copy", 0)
    stub.served = {"id": "patient", "root": str(other)}
    with pytest.raises(UserError, match=f"serves {other}, whose weights are not") as error:
        make_engine(task, "patient", weights, server=server)
    assert f"{stub.url}: " in str(error.value)
    assert f"start it with {own}" in str(error.value)
    unknown = ("not/here", "Qwen/Qwen3-8B", None, 5)
    for root in (str(own), str(tmp_path / own), str(copy), *unknown):
        stub.served["root"] = root
        assert make_engine(task, "patient", weights, server=server).model == "patient"


def failing_patient(context, serve, fails) -> Patient:
    """A served patient that says "No cough." and fails where `fails(question prompt)`."""

    def reply(body, attempt):
        if fails(context.chat.decode(body["prompt"])):
            return 400, "no"
        return completion([*context.chat.encode("No cough."), context.chat.end_of_turn])

    decoding = Decoding(temperature=1.0, top_p=1.0, max_tokens=20)
    return Patient(serve(reply).engine(), context.chat, decoding)


def served_setting(serve, cases, fails, name):
    """Actors that ask once and then answer B, with a served patient."""

    def say(case_id, rollout, turn, candidate):
        return "Final Answer: B" if turn else f"Question: {case_id} number {rollout}{candidate}?"

    context = scripted_context(say, cases, name=name)
    context.patient.engine = failing_patient(context, serve, fails).engine
    return context


def test_a_failed_answer_ends_the_consultation_and_its_case_is_not_trained_on(serve):
    cases = [make_case(i) for i in range(3)]
    for failing in ("case-1 number 10", "case-1 number 02"):  # an executed question, a candidate
        context = served_setting(serve, cases, lambda p, f=failing: f in p, "1/update/1")
        rolled = roll_out(context, cases, rollouts=2, candidates=3, seed=1, stage="update/1")
        ended = [[c.ending for c in row] for row in rolled]
        assert ended[0] == ended[2] == ["answer", "answer"]
        assert sorted(ended[1]) == ["answer", "patient_failed"]
        method = Pcqc("Test", "pcqc", terminal_group=2, question_group=3)
        services = Services(None, 1, scripted_scorer(lambda text: (0.25,) * 4, context.chat))
        drawn = method.collect_rollouts(services, context, cases, 1)
        assert [case.case_id for case in drawn.cases] == ["case-0", "case-2"]
        assert np.shape(drawn.rewards) == (2, 2)
        assert drawn.failures["failures/patient"] == 1
        texts = [context.chat.decode(s.tokens) for s in drawn.sequences]
        assert texts
        assert not any("case-1" in text for text in texts)


def test_an_update_without_any_answer_and_an_evaluation_with_a_gap_are_refused(serve):
    cases = [make_case(i) for i in range(2)]
    context = served_setting(serve, cases, lambda prompt: True, "1/update/1")
    with pytest.raises(UserError, match="failed in every case"):
        GRPO.collect_rollouts(Services(None, 1), context, cases, 1)
    context = served_setting(serve, cases, lambda p: "case-1" in p, "1/evaluation/dev")
    with pytest.raises(UserError, match=r"failed in 1 answers of 2 consultations \(refused"):
        evaluate(context, cases, seed=1, benchmark="dev", labels={})


def test_a_state_that_the_scorer_failed_on_has_no_question_credit(serve):
    cases = [make_case(i) for i in range(2)]
    context = served_setting(serve, cases, lambda prompt: False, "1/update/1")

    def reply(body, attempt):
        if "case-1 number 01" in context.chat.decode(body["prompt"]):
            return 400, "no"
        values = {f"token_id:{t}": -1.0 - i for i, t in enumerate(body["logprob_token_ids"])}
        return 200, json.dumps({"choices": [{"logprobs": {"top_logprobs": [values]}}]})

    scorer = Scorer(serve(reply).engine(), context.chat.tokenizer)
    method = Pcqc("Test", "pcqc", terminal_group=2, question_group=2)
    drawn = method.collect_rollouts(Services(None, 1, scorer), context, cases, 1)
    assert [group.case.case_id for group in drawn.groups] == ["case-0"]
    assert drawn.failures["failures/scorer"] == 1
    assert len(drawn.cases) == 2
    assert scorer.engine.take_faults()["failures"] == 1
