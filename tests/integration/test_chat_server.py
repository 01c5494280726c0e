"""Patient and scorer behind plain chat completions: with log-probabilities, without, hostile."""

import dataclasses
import json
import math
import random
import re

import numpy as np
import pytest
from helpers import make_case, scripted_context
from pydantic import TypeAdapter, ValidationError
from stub_server import chat, chat_likeliest

from pcqc.cases.prompts import patient_prompt, scorer_prompt
from pcqc.consultation import roll_out
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc
from pcqc.roles import Patient, Scorer
from pcqc.roles.patient import Inquiry
from pcqc_base.errors import UserError
from pcqc_base.settings import Decoding, Server
from pcqc_gpu.engines.chat_server import LABEL_ALONE, ChatEngine, Text
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study

KEY = "sk-test-0123456789abcdef"
TEXT = Text()
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=8, stop=())
CASE = make_case(0)  # with options A to D
EVIDENCE = (CASE.public, ())


def message(body) -> str:
    (turn,) = body["messages"]
    assert turn["role"] == "user"
    return turn["content"]


def sampled(engine, text="Any cough?", stream=5 << 33):
    ((result,),) = engine.generate([Request(TEXT.ask(text), (stream,))], SAMPLING)
    return result


def test_a_patient_reads_and_answers_text_by_the_common_fields_alone(serve):
    stub = serve(lambda body, attempt: chat("  Yes, für Tage. "))
    patient = Patient(stub.engine(model="m"), TEXT, Decoding(0.7, 0.9, 8))
    assert patient.answer([Inquiry(CASE.facts, "Any cough?", 5 << 33)]) == ["Yes, für Tage."]
    assert [path for _, path, _ in stub.seen] == ["/v1/models", "/v1/chat/completions"]
    (body,) = stub.bodies
    assert message(body) == patient_prompt(CASE.facts, "Any cough?")
    sent = {"model": "m", "temperature": 0.7, "top_p": 0.9, "max_tokens": 8, "seed": 5}
    assert {name: value for name, value in body.items() if name != "messages"} == sent


def test_the_study_s_own_fields_take_the_place_of_ours_and_null_leaves_one_out(serve):
    stub = serve(lambda body, attempt: chat("<think>\nhm\n</think>\n\nYes."))
    own = {"max_tokens": None, "max_completion_tokens": 500, "seed": None, "top_p": 1}
    engine = stub.engine(model="m", body=own)
    assert TEXT.reply(sampled(engine).tokens) == "Yes."
    (body,) = stub.bodies
    assert body["max_completion_tokens"] == 500
    assert body["top_p"] == 1
    assert not {"max_tokens", "seed"} & body.keys()


@pytest.mark.parametrize("base", ["", "/v1", "/v1/", "/api/openai"])
def test_an_address_is_a_base_url_as_clients_have_it(serve, base):
    stub = serve(lambda body, attempt: chat("Yes."))
    sampled(ChatEngine(Server(stub.url + base, model="m", attempts=1)))
    assert stub.seen[-1][1] == f"{base.rstrip('/') or '/v1'}/chat/completions"


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        (chat(None), "None in place of an answer's text"),
        (chat(["Yes"]), "in place of an answer's text"),
        (chat("  "), "an empty answer, after 'stop'"),
        (chat("", finish="length"), "an empty answer, after 'length'"),
        (chat("x" * 2049), "2049 characters in place of 8 tokens"),
        ((200, '{"choices": [{"message": {"content": "\\ud800"}}]}'), "surrogates not allowed"),
        ((200, json.dumps({"error": {"message": "no credit"}})), "not a completion: .*no credit"),
        ((200, '{"choices": ["Yes"]}'), "'Yes' in place of an object"),
        ((200, '{"choices": []}'), "not a completion"),
        ((200, "[" * 10**5), "not a completion|no JSON"),
        ((200, "<html>"), "no JSON: <html>"),
    ],
)
def test_what_no_patient_can_have_said_is_malformed(serve, reply, wrong):
    stub = serve(lambda body, attempt: reply if message(body) == "bad" else chat("Yes."))
    engine = stub.engine(model="m", attempts=1)
    requests = [Request(TEXT.ask(text), (1,)) for text in ("bad", "good")]
    ((result,), (good,)) = engine.generate(requests, SAMPLING)
    assert isinstance(good, Completion)
    assert result.kind == "malformed"
    assert re.search(wrong, result.message)


def test_an_answer_that_does_not_come_in_time_is_a_failure(serve):
    stub = serve(lambda body, attempt: None if message(body) == "bad" else chat("Yes."))
    engine = stub.engine(model="m", attempts=1, timeout_seconds=0.3)
    requests = [Request(TEXT.ask(text), (1,)) for text in ("bad", "good")]
    ((result,), (_,)) = engine.generate(requests, SAMPLING)
    assert result.kind == "timeout"


def test_the_scorer_reads_labels_at_the_first_token_of_an_answer(serve):
    tokens = {"B": math.log(0.5), " B": math.log(0.1), "A": math.log(0.2), "**": math.log(0.1)}
    stub = serve(lambda body, attempt: chat_likeliest(tokens | {"C": math.log(0.06)}))
    (read,) = Scorer(stub.engine(model="m"), TEXT).probabilities([EVIDENCE])
    # D is not listed: as likely as what the others leave, which is less than the last of them.
    weights = np.array([0.2, 0.6, 0.06, 0.04])
    assert read == pytest.approx(weights / weights.sum())
    (body,) = stub.bodies
    assert message(body) == LABEL_ALONE + scorer_prompt(CASE.public, ())
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 1)
    assert (body["temperature"], body["top_p"]) == (1, 1)


@pytest.mark.parametrize(
    ("tokens", "wrong"),
    [
        ({"The": -0.1, "Since": -3.0}, "no label among the 2 likeliest tokens"),
        ({"A": -0.1, "B": -0.1}, "probabilities that sum to 1.8"),
        ({"A": 0.5}, "0.5 as a log-probability"),
        ({"A": float("nan")}, "nan as a log-probability"),
        ({"A": "-1"}, "'-1' as a log-probability"),
        ({None: -0.1}, "not a completion"),
    ],
)
def test_probabilities_that_no_model_gives_are_malformed(serve, tokens, wrong):
    good = chat_likeliest({"A": -0.1, "B": -3.0})
    entries = json.dumps([{"token": t, "logprob": v} for t, v in tokens.items()])
    content = (
        '{"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": '
    )
    bad = (200, f"{content}{entries}}}]}}}}]}}")
    stub = serve(lambda body, attempt: bad if "cough" in message(body) else good)
    scorer = Scorer(stub.engine(model="m", attempts=1), TEXT)
    other = make_case(1, initial="Has cough.")
    fine, result = scorer.probabilities([EVIDENCE, (other.public, ())])
    assert fine.sum() == pytest.approx(1)
    assert result.kind == "malformed"
    assert wrong in result.message


@pytest.mark.parametrize("more", [{}, {"logprobs": None}, {"logprobs": {"content": []}}])
def test_a_server_without_log_probabilities_is_to_be_asked(serve, more):
    stub = serve(lambda body, attempt: chat("B", **more))
    with pytest.raises(UserError, match=rf"{stub.url}: .* no log-probabilities .*asks: 64"):
        Scorer(stub.engine(model="m"), TEXT).probabilities([EVIDENCE])


def drawing(shares: dict[str, float]):
    """A server's answers: a share of the seeds gets each, whatever else is asked."""

    def reply(body, attempt):
        draw = random.Random(f"{body['seed']} {message(body)}").random()
        for answer, share in shares.items():
            if draw < share:
                return chat(answer)
            draw -= share
        return chat("I cannot tell.")

    return reply


def test_a_scorer_that_is_asked_counts_the_labels_it_names(serve):
    stub = serve(drawing({"B": 0.3, "(B) flu": 0.2, "**A**": 0.2, "<think>C?</think>C": 0.1}))
    scorer = Scorer(stub.engine(model="m", asks=400), TEXT)
    (read,) = scorer.probabilities([EVIDENCE])
    assert len(stub.bodies) == len({body["seed"] for body in stub.bodies}) == 400
    assert read.sum() == pytest.approx(1)
    assert read[3] == 0
    expected = np.array([0.2, 0.5, 0.1]) / 0.8
    assert np.abs(read[:3] - expected).max() < 4 * 0.5 / math.sqrt(320)
    counts = scorer.engine.take_faults()
    assert counts["failures"] == 0
    assert 50 < counts["unread"] < 110
    assert scorer.probabilities([EVIDENCE])[0] == pytest.approx(read)  # a server that heeds seeds


@pytest.mark.parametrize("asks", [8, 32])
def test_asking_has_the_standard_error_that_the_page_states(serve, asks):
    p, evidence = 0.3, [(make_case(i, initial=f"Case {i}.").public, ()) for i in range(60)]
    stub = serve(drawing({"A": p, "B": 1 - p}))
    scorer = Scorer(stub.engine(model="m", asks=asks), TEXT)
    read = np.array(scorer.probabilities(evidence))[:, 0]
    error = math.sqrt(p * (1 - p) / asks)
    assert read.std() == pytest.approx(error, rel=0.35)  # of 60 draws, 0.09 is a standard error
    assert read.mean() == pytest.approx(p, abs=4 * error / math.sqrt(60))


def test_where_no_answer_names_an_option_the_state_is_a_failure(serve):
    stub = serve(lambda body, attempt: chat("It depends."))
    (read,) = Scorer(stub.engine(model="m", asks=4), TEXT).probabilities([EVIDENCE])
    assert isinstance(read, Failure)
    assert read.message == "none of 4 answers names an option"


def test_labels_of_several_characters_are_refused_with_a_remedy(serve):
    stub = serve(drawing({"A1": 1.0}))
    case = make_case(0, options={"A1": "flu", "A2": "cold"}, answer="A1")
    with pytest.raises(UserError, match="labels of one character; label the options A, B, C"):
        Scorer(stub.engine(model="m", asks=4), TEXT).probabilities([(case.public, ())])
    assert stub.bodies == []


def test_the_key_is_in_the_header_and_nowhere_else(serve, monkeypatch, caplog):
    stub = serve(lambda body, attempt: chat("Yes."))
    stub.key = KEY
    with pytest.raises(UserError, match=r"variable MY_KEY, .* is not set; export it"):
        stub.engine(model="m", key="MY_KEY")
    assert stub.seen == []
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    engine = stub.engine(model="m", key="MY_KEY")
    assert isinstance(sampled(engine), Completion)
    assert {given for _, _, given in stub.seen} == {f"Bearer {KEY}"}
    assert KEY not in repr(vars(engine.server)) + json.dumps(stub.bodies) + caplog.text


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("sk-wrong-0123456789abcdef", r"status 401: .*provided: Bearer \*\*\*"),
        ("sk-a b\r\nX: y", "holds a blank"),
        ("schlüssel", "or a letter that no key has"),
    ],
)
def test_a_wrong_key_is_refused_and_not_shown(serve, monkeypatch, key, error):
    stub = serve(lambda body, attempt: chat("Yes."))
    stub.key = KEY
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(UserError, match=error) as refused:
        stub.engine(model="m", key="MY_KEY")
    assert "MY_KEY" in str(refused.value)
    assert key not in str(refused.value)
    if "401" not in error:
        assert stub.seen == []


def test_a_server_that_wants_a_key_says_so(serve):
    stub = serve(lambda body, attempt: chat("Yes."))
    stub.key = KEY
    for settings in ({"model": "m"}, {}):  # of vLLM too
        with pytest.raises(UserError, match=r"status 401: .*variable with its API key, as 'key'"):
            stub.engine(**settings)


def test_no_words_of_a_server_bring_the_key_to_light(serve, monkeypatch):
    """Echoed in an error, cut by its end, in an answer that cannot be read, and as an answer."""
    replies = {
        "refused": (400, f"no such field; your key is {KEY}"),
        "late": (500, "x" * 190 + KEY),
        "unread": (200, f"<{KEY}>"),
        "wrong": (200, json.dumps({"choices": [f"{'x' * 60} {KEY}"]})),
        "said": chat(f"Take {KEY}."),
    }
    stub = serve(lambda body, attempt: replies.get(message(body)) or chat("Yes."))
    monkeypatch.setenv("MY_KEY", KEY)
    engine = stub.engine(model="m", key="MY_KEY", attempts=1)
    requests = [Request(TEXT.ask(text), (1,)) for text in [*replies, "fine"]]
    *failed, (fine,) = engine.generate(requests, SAMPLING)
    assert isinstance(fine, Completion)
    for (result,) in failed:
        assert isinstance(result, Failure)
        assert KEY[:8] not in result.message


@pytest.mark.parametrize("listing", [(403, "no"), (404, "no"), (200, "<html>"), (200, "[]")])
def test_a_server_need_not_list_its_models_but_must_have_this_one(serve, listing):
    stub = serve(lambda body, attempt: (404, "model 'm' not found"))
    stub.listing = listing
    with pytest.raises(UserError, match=r"chat/completions: status 404: model 'm' not found"):
        sampled(stub.engine(model="m", attempts=1))


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"asks": 4}, "name the 'model' too"),
        ({"body": {"seed": None}}, "name the 'model' too"),
        ({"model": "m", "body": {"messages": []}}, "'body' has 'messages'"),
        ({"model": "m", "key": "sk-abc"}, "a key itself belongs in no file"),
        ({"url": "http://models.example.org", "model": "m", "key": "K"}, "over https alone"),
        ({"model": "m", "replicas": ["http://10.0.0.7"], "key": "K"}, "over https alone"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, wrong):
    given = {"url": "http://127.0.0.1:1"} | settings
    with pytest.raises(ValidationError, match=wrong) as refused:
        TypeAdapter(Server).validate_json(json.dumps(given))
    assert "sk-abc" not in refused.value.errors()[0]["msg"]


def with_servers(study, **servers):
    groups = {role: Server(**settings) for role, settings in servers.items()}
    return dataclasses.replace(study, servers=dataclasses.replace(study.servers, **groups))


def test_model_and_host_decide_and_port_key_and_patience_do_not():
    study = load_study("clinic-mini")
    scorer = {"url": "https://api.example.org/v1", "model": "large", "key": "K"}

    def names(**changes):
        return [
            Jobs(with_servers(study, scorer=scorer | changes)).job(*job).fingerprint.short
            for job in (("train", "pcqc", "A"), ("sft",))
        ]

    plain, (run, sft) = Jobs(study), names()
    assert plain.job("sft").fingerprint.short == sft
    assert plain.job("train", "pcqc", "A").fingerprint.short != run
    same = ({"key": "L"}, {"url": "https://api.example.org:8443/v2"}, {"timeout_seconds": 5.0})
    assert all(names(**change) == [run, sft] for change in same)
    other = (
        {"model": "small"},
        {"url": "https://other.org/v1"},
        {"asks": 8},
        {"body": {"top_k": 1}},
    )
    assert len({names(**change)[0] for change in other} | {run}) == 5
    job = Jobs(with_servers(study, scorer=scorer)).job("train", "pcqc", "A")
    assert "scorer" not in job.inputs
    assert "patient" in job.inputs
    # Servers of the role's own weights decide nothing.
    of_weights = with_servers(study, scorer={"url": "http://127.0.0.1:1", "key": "K"})
    fingerprint = Jobs(of_weights).job("train", "pcqc", "A").fingerprint
    assert fingerprint.short == plain.job("train", "pcqc", "A").fingerprint.short


def test_each_role_reads_what_the_paper_grants_it(serve):
    """Through rollouts and scoring of PCQC: facts at the patient alone, the task not there."""
    cases = [make_case(i, facts=(f"Secret fact {i}.",)) for i in range(2)]

    def say(case_id, rollout, turn, candidate):
        return "Final Answer: B" if turn else f"Question: {case_id} {rollout}{candidate}?"

    context = scripted_context(say, cases, name="1/update/1")
    patient = serve(lambda body, attempt: chat("Answered so."))
    scorer = serve(lambda body, attempt: chat_likeliest({"A": -0.5, "B": -1.0}))
    context = dataclasses.replace(
        context, patient=Patient(patient.engine(model="p"), TEXT, Decoding(1.0, 1.0, 20))
    )
    rolled = roll_out(context, cases, rollouts=1, seed=1, stage="update/1")
    assert [c.ending for (c,) in rolled] == ["answer", "answer"]
    method = Pcqc("Test", "pcqc", terminal_group=2, question_group=3)
    services = Services(None, 1, Scorer(scorer.engine(model="s"), TEXT))
    drawn = method.collect_rollouts(services, context, cases, 1)
    assert len(drawn.groups) == 2
    told, read = ([message(body) for body in stub.bodies] for stub in (patient, scorer))
    assert told
    assert all(text.count("Secret fact") == 1 for text in told)
    assert not any(case.question in text for text in told for case in cases)
    assert not any(option in text for text in told for option in cases[0].options.values())
    assert read
    assert not any("Secret fact" in text for text in read)
    assert any("Answered so." in text for text in read)
