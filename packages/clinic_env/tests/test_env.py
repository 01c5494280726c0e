"""The environment: its rules, what it tells exactly, and that both are those of many at once."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clinic_env import ClinicCase, ClinicEnv, VectorClinic, group_of, load, read_action
from clinic_env.consultation import REMINDER, UNANSWERABLE, question_about
from clinic_env.players import PLAYERS, best, measure
from clinic_env.posterior import posterior
from clinic_env.vector import NOTHING, PRESENT, UNKNOWN

WORLDS = Path(__file__).parents[1] / "src" / "clinic_env" / "worlds"
CASE = ClinicCase(
    "fatigue present.",
    "Which?",
    {"A": "amber", "B": "azure", "C": "coral"},
    ("amber spots absent.", "azure spots present.", "jade spots absent."),
    "B",
)


def opened(**rules):
    env = ClinicEnv(**rules)
    env.reset(options={"case": CASE})
    return env


def test_the_frozen_world_is_the_one_of_its_card():
    digest = hashlib.sha256((WORLDS / "clinic-v1.json").read_bytes()).hexdigest()
    assert f"`{digest}`" in (WORLDS / "clinic-v1.md").read_text(encoding="utf-8")
    world, rules = load("clinic-v1")
    assert len(world.diseases) == len(world.findings) == 16
    assert rules.max_turns == 10


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="no world is called 'clinic-v0'; there are clinic-v1"):
        ClinicEnv("clinic-v0")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"options": {"A": "amber", "B": "azure", "C": "gout"}}, "'gout' is no disease"),
        ({"initial": "gout present."}, "'gout present.' names 0 complaints of this world"),
    ],
)
def test_a_case_of_another_world_is_named(change, wrong):
    world, _ = load("clinic-v1")
    with pytest.raises(ValueError, match=wrong):
        posterior(world, replace(CASE, **change), {})


def test_a_consultation_from_opening_to_diagnosis():
    env = opened()
    assert env.messages == [
        {"role": "user", "content": f"fatigue present.\nProblem: Which?\nOptions: {CASE.options}"}
    ]
    turns = [
        ("<think>amber?</think>Question: Any azure spots?", "azure spots present."),
        ("Question: Any coral spots?", UNANSWERABLE),  # the facts do not record it
        ("Question: Any jade or amber spots?", "amber spots absent. jade spots absent."),
        ("I wonder.", REMINDER),
    ]
    for text, reply in turns:
        assert env.step(text)[:4] == (reply, 0.0, False, False)
    assert env.step("Final Answer: B")[:4] == ("The diagnosis is azure.", 1.0, True, False)
    assert [turn["role"] for turn in env.messages] == ["user", "assistant"] * 5 + ["user"]
    with pytest.raises(RuntimeError, match="has ended"):
        env.step("Final Answer: B")


@pytest.mark.parametrize("text", ["Final Answer: A", "Final Answer: none of them"])
def test_any_other_answer_is_wrong(text):
    assert opened().step(text)[1:3] == (0.0, True)


def test_a_question_of_the_last_turn_is_not_answered():
    env = opened(max_turns=2)
    assert env.step("Question: Any azure spots?")[2] is False
    text, reward, done, _, info = env.step("Question: Any amber spots?")
    assert (reward, done, info["q_star"]) == (0.0, True, {})
    assert "amber spots" not in text
    assert info["turn_rewards"]["q_star"] == pytest.approx(-max(info["posterior"].values()))


def test_no_step_before_a_reset():
    with pytest.raises(RuntimeError, match="reset the environment first"):
        ClinicEnv().step("Final Answer: A")


def test_a_seed_names_the_cases_that_follow():
    env, other = ClinicEnv(), ClinicEnv()
    first = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    assert first == [other.reset(seed=3)[0], other.reset()[0], other.reset()[0]]
    assert len(set(first)) == 3
    assert env.reset(seed=4)[0] != first[0]


def test_info_tells_posterior_values_and_what_the_turn_brought():
    """By hand: with azure spots present the other two options have 0.02 / 0.98 of its odds."""
    env = opened()
    before = env.present.belief()
    _, _, _, _, info = env.step("Question: Any azure spots?")
    weight = dict(zip("ABC", env.world.complaint_likelihood(CASE)[:3], strict=True))
    joint = {k: w * (0.98 if k == "B" else 0.02) for k, w in weight.items()}
    belief = joint["B"] / sum(joint.values())
    assert info["posterior"] == pytest.approx(
        {k: w / sum(joint.values()) for k, w in joint.items()}
    )
    assert before == pytest.approx(weight["B"] / sum(weight.values()))
    assert info["turn_rewards"]["gain"] == pytest.approx(belief - before)
    assert info["turn_rewards"]["log_gain"] == pytest.approx(np.log(belief / before))
    assert info["stop_value"] == pytest.approx(max(info["posterior"].values()))
    # A question that was asked, and one about no option, are worth what follows them.
    assert info["q_star"]["azure"] == info["q_star"]["jade"] == min(info["q_star"].values())
    assert info["best_question"] in ("Question: Any amber spots?", "Question: Any coral spots?")


def test_the_expected_gain_is_the_mean_over_patients_of_the_gain():
    env = opened(max_turns=10)
    question = "Question: Any amber spots?"
    prior, total = env.present.posterior(), 0.0
    for label, share in zip("ABC", prior, strict=True):
        for shown in (True, False):
            chance = 0.98 if (label == "A") == shown else 0.02
            fact = f"amber spots {'present' if shown else 'absent'}."
            case = ClinicCase(CASE.initial, CASE.question, CASE.options, (fact,), label)
            env.reset(options={"case": case})
            _, _, _, _, info = env.step(question)
            total += share * chance * info["turn_rewards"]["gain"]
    assert info["turn_rewards"]["expected_gain"] == pytest.approx(total)


def test_a_best_turn_loses_nothing_and_any_other_what_it_is_worth_less():
    env = ClinicEnv()
    for seed in range(5):
        _, info = env.reset(seed=seed)
        while not env.present.done:
            values = env.present.q_star(env.values)
            asked = env.rng.integers(16) if env.rng.random() < 0.5 else None
            text = info["best_question"] if asked is None else question_about(env.world, asked)
            # With the last question gone, the best turn is the Bayes diagnosis.
            top = max(info["posterior"], key=info["posterior"].get)
            text = text if values else f"Final Answer: {top}"
            _, _, _, _, info = env.step(text)
            lost = 0.0 if asked is None or not values else values[asked] - max(values.values())
            assert info["turn_rewards"]["q_star"] == pytest.approx(lost)


def test_what_candidates_would_bring_is_what_asking_brings():
    env = opened()
    texts = ["Question: Any azure spots?", "Question: Any ivory spots?", "Final Answer: C", "hm"]
    known = env.candidates(texts)
    assert known["replies"] == ["azure spots present.", UNANSWERABLE, "", ""]
    assert known["q_star"][2] == pytest.approx(env.present.posterior()[2])
    assert known["utilities"][1:] == pytest.approx([env.present.belief()] * 3)
    assert known["expected"][1:] == pytest.approx([(env.present.posterior() ** 2).sum()] * 3)
    assert env.present.turns == 0
    reply, *_ = env.step(texts[0])
    assert (reply, env.present.belief()) == (known["replies"][0], known["utilities"][0])


def test_turn_credit_reads_the_groups():
    turn_credit = pytest.importorskip("turn_credit")
    infos = []
    for asked in (["azure"], ["amber", "azure"]):
        env = opened()
        for name in asked:
            env.step(f"Question: Any {name} spots?")
        infos.append(env.step("Final Answer: B" if len(asked) == 1 else "Final Answer: A")[4])
    group = turn_credit.Group(**group_of(infos))
    assert group.rewards == [1.0, 0.0]
    assert group.lengths == [2, 3]
    assert group.states[0][0] == group.states[1][0] == frozenset()
    first, second = turn_credit.credit_update("mt_grpo", [group])[0]
    assert first[0] > second[0]


@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        ("Question: Any amber spots?", "question", "Any amber spots?"),
        ("<think>Final Answer: A</think>Question: x?", "question", "x?"),
        ("Question: x? Final Answer: B", "answer", "B"),
        ("Final Answer: **C**.", "answer", "C"),
        ("Final Answer: A cold", "answer", ""),
        ("Question: x? Final Answer: A cold", "question", "x?"),
        ("Question:  ", "none", ""),
        ("<think>Question: x?", "none", ""),
    ],
)
def test_what_a_text_does(text, kind, content):
    action = read_action(text)
    assert (action.kind, action.text) == (kind, content)


def test_many_at_once_follow_the_rules_and_the_posterior_of_one():
    vector, rng = VectorClinic(64), np.random.default_rng(1)
    vector.reset(seed=2)
    ended = 0
    for _ in range(25):
        state = {n: getattr(vector, n).copy() for n in ("options", "complaint", "answer", "facts")}
        turn = vector.turn.copy()
        actions = rng.integers(NOTHING, 18, 64)
        observation, rewards, ends, cuts, infos = vector.step(actions)
        assert (ends == ((actions >= 16) | (turn == 9))).all()
        assert (rewards == ((actions - 16 == state["answer"]) & (actions >= 16))).all()
        assert not cuts.any()
        assert len(infos["final_posterior"]) == ends.sum()
        ended += int(ends.sum())
        for row in range(64):
            labels = "ABCDEFGH"[: (vector.options[row] >= 0).sum()]
            names = [vector.world.diseases[d] for d in vector.options[row] if d >= 0]
            complaint = vector.world.complaints[vector.complaint[row]]
            options = dict(zip(labels, names, strict=True))
            case = ClinicCase(f"{complaint} present.", "", options, (), "A")
            known = observation["known"][row]
            heard = {f: bool(k == PRESENT) for f, k in enumerate(known) if k not in (0, UNKNOWN)}
            exact = posterior(vector.world, case, heard)
            assert infos["posterior"][row, : len(exact)] == pytest.approx(exact)
            assert infos["posterior"][row, len(exact) :] == pytest.approx(0)
    assert ended > 100


def test_many_at_once_speak_as_one_does():
    vector = VectorClinic(3)
    openings = vector.reset_texts(seed=5)
    assert all(text.count("\n") == 2 for text in openings)
    replies, _, ends, _, _ = vector.step_texts(
        ["Question: Any amber spots?", "hm", "Final Answer: A"]
    )
    assert replies[0] in ("amber spots absent.", "amber spots present.", UNANSWERABLE)
    assert replies[1] == REMINDER
    assert ends.tolist() == [False, False, True]
    assert replies[2].startswith(f"{vector.world.complaints[vector.complaint[2]]} present.")


def test_many_at_once_draw_the_cases_that_one_draws():
    """Means over 20,000 cases and 4,000: of the opening's posterior, and of its correctness."""
    vector, env = VectorClinic(20_000), ClinicEnv(exact=False)
    _, infos = vector.reset(seed=1)
    top = infos["posterior"].max(axis=1).mean()
    right = infos["posterior"][np.arange(20_000), vector.answer].mean()
    env.reset(seed=1)
    beliefs = []
    for _ in range(4000):
        env.reset()
        beliefs.append((env.present.posterior().max(), env.present.belief()))
    assert (top, right) == pytest.approx(np.mean(beliefs, axis=0), abs=0.008)
    assert (vector.facts == UNKNOWN).sum(axis=1).tolist() == [2] * 20_000


def test_the_best_player_reaches_what_q_star_promises():
    """Its mean chance at the end is V* of the openings: 400 cases, standard error 0.005."""
    promised = []
    for seed in range(400):
        env = ClinicEnv(exact=False, recorded_facts=1.0)
        env.reset(seed=seed)
        promised.append(env.present.best_value(env.values))
    score = measure(best, 400, recorded_facts=1.0)
    assert score.bayes == pytest.approx(np.mean(promised), abs=0.015)
    assert score.best == 1
    assert score.loss == pytest.approx(0, abs=1e-9)


def test_players_differ_as_they_must():
    scores = {name: measure(player, 150) for name, player in PLAYERS.items()}
    none, at_random, greedy, best_one = scores.values()
    assert none.questions == 0
    assert none.bayes < at_random.bayes < best_one.bayes
    assert at_random.questions == 9
    assert at_random.loss > 1 > greedy.loss
    assert best_one.loss == pytest.approx(0, abs=1e-9)
