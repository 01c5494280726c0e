"""The rules of clinic-v2: worlds, cases, seeds, turns and rewards; what is known exactly."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from clinic_env.v2 import (
    NAMES,
    RULES,
    SPLITS,
    ClinicEnv,
    Consultations,
    doctor,
    group_of,
    load,
    measure,
)
from clinic_env.v2 import world as world_module
from clinic_env.v2.cases import cases_of, numbers_per_case, stream
from clinic_env.v2.consultations import UNHEARD
from clinic_env.v2.reading import NOT_ONE_TURN, SEVERAL_FINDINGS
from clinic_env.v2.values import NOTHING

DRAW = "c11c" * 8
CARD = Path(world_module.__file__).parents[1] / "worlds" / "clinic-v2.md"


def drawn(world, count, split="train"):
    size = numbers_per_case(world)
    rows = [stream(world, split, seed).random(size) for seed in range(count)]
    return cases_of(world, np.stack(rows))


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_world_is_the_one_of_its_card_and_a_changed_file_is_refused(name, monkeypatch):
    world = load(name)
    assert world.present.shape == (len(world.findings), len(world.kinds), 12)
    assert f"`{world_module.DIGESTS[name]}`" in CARD.read_text(encoding="utf-8")
    monkeypatch.setitem(world_module.DIGESTS, name, "0" * 64)
    with pytest.raises(ValueError, match=f"{name}.json is not the frozen world"):
        load(name)


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="no world is called 'clinic-v1'; there are clinic-v2-"):
        load("clinic-v1")


@pytest.mark.parametrize("name", NAMES)
def test_cases_are_drawn_as_the_world_says(name):
    """4,000 cases; a share's standard error is at most 0.008, and four of them are allowed.

    A mean of P(disease | opening) over cases is the share of the cases that have the disease.
    """
    world = load(name)
    cases = drawn(world, 4000)
    priors = [
        world.prior(options, complaint).sum(axis=1)
        for options, complaint in zip(cases.options, cases.complaint, strict=True)
    ]
    share = np.bincount(cases.disease, minlength=12) / 4000
    assert share == pytest.approx(np.mean(priors, axis=0), abs=0.032)
    assert np.bincount(cases.complaint) / 4000 == pytest.approx(np.full(6, 1 / 6), abs=0.032)
    assert np.bincount(cases.kind) / 4000 == pytest.approx(world.kinds, abs=0.032)
    place = (cases.options == cases.disease[:, None]).argmax(axis=1)
    labels = np.bincount(place, minlength=world.options) / 4000
    assert labels == pytest.approx(np.full(world.options, 1 / world.options), abs=0.032)
    chance = world.answered_present[:, cases.kind, cases.disease].mean(axis=1)
    told_present = cases.answers.mean(axis=(0, 2))
    assert told_present == pytest.approx(chance, abs=0.032)


def test_no_split_draw_or_world_shares_a_case():
    world, size = load(NAMES[0]), 100
    rows = {
        (split, draw): stream(world, split, 5, draw).random(size).tobytes()
        for split in SPLITS
        for draw in ("", "a" * 32, "b" * 32)
    }
    rows["another world"] = stream(load(NAMES[1]), "train", 5).random(size).tobytes()
    assert len(set(rows.values())) == len(rows) == 10
    first, second = (Consultations(1, world, "leaderboard").draw for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


def test_a_draw_belongs_to_the_leaderboard_alone():
    with pytest.raises(ValueError, match="the cases of 'train' are the same for all"):
        ClinicEnv(split="train", draw=DRAW)
    with pytest.raises(ValueError, match="no split is called 'test'; there are train, validation"):
        ClinicEnv(split="test")


def test_a_seed_names_the_cases_that_follow():
    env, other = ClinicEnv(exact=False), ClinicEnv(exact=False)
    first = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    assert first == [other.reset(seed=3)[0], other.reset()[0], other.reset()[0]]
    assert len({*first, env.reset(seed=4)[0]}) == 4


@pytest.mark.parametrize("name", NAMES)
def test_many_at_once_are_the_same_task_as_one(name):
    """The same texts, row by row: replies, rewards and ends are those of single environments."""
    world, count = load(name), 6
    many, ones = Consultations(count, world), [ClinicEnv(name, exact=False) for _ in range(count)]
    many.seed(40)
    many.open(np.arange(count))
    openings = [env.reset(seed=40 + row)[0] for row, env in enumerate(ones)]
    assert openings == [many.opening(row) for row in range(count)]
    rng = np.random.default_rng(0)
    texts = ["Any amber spots?", "amber or azure?", "hm", "Any olive spots", "Final Answer: C"]
    for _ in range(world.turns):
        said = [texts[i] for i in rng.integers(len(texts), size=count)]
        before = many.done.copy()
        replies, rewards = many.take_texts(said)
        for row, env in enumerate(ones):
            if not before[row]:
                one = env.step(said[row])
                assert (replies[row], rewards[row], many.done[row]) == one[:3]
    assert many.done.all()


def test_a_text_with_two_findings_is_answered_in_neither_form():
    env = ClinicEnv(exact=False)
    env.reset(seed=1)
    assert env.step("Question: Any amber or azure spots?")[0] == SEVERAL_FINDINGS
    assert env.step("Question: All of your spots, please?")[0] == NOT_ONE_TURN
    many = Consultations(3, env.world)
    many.open(np.arange(3))
    replies, _ = many.take_texts([" ".join(env.world.findings), "amber, azure", "jade?"])
    assert replies[:2] == [SEVERAL_FINDINGS] * 2
    assert many.heard.sum(axis=(1, 2)).tolist() == [0, 0, 1]
    assert not env.heard.any()


def test_only_the_last_turn_is_not_answered_and_answers_cost_their_price():
    env = ClinicEnv("clinic-v2-costs")
    env.reset(seed=2)
    paid = []
    for text in ("Any amber spots?", "Any olive spots?", "Any olive spots?", "hm"):
        _, reward, done, cut, _ = env.step(text)
        paid.append(reward)
        assert (done, cut) == (False, False)
    assert paid == pytest.approx([-0.12, -0.08, -0.08, 0])
    reply, reward, done, _, info = env.step("Any coral spots?")
    assert (reward, done, info["score"]) == (0, True, pytest.approx(-0.28))
    assert reply.startswith("The diagnosis is ")
    assert info["turn_rewards"]["q_star"] == pytest.approx(-max(info["posterior"].values()))
    with pytest.raises(RuntimeError, match="reset the environment"):
        env.step("hm")


def test_a_finding_asked_again_is_repeated_or_looked_at_anew():
    for name, most in (("clinic-v2-budget", 1), ("clinic-v2-lies", 2)):
        several = set()
        for seed in range(12):
            env = ClinicEnv(name, exact=False)
            env.reset(seed=seed)
            several.add(len({env.step("Any olive spots?")[0] for _ in range(env.questions_left)}))
        assert max(several) == most


def test_lies_come_at_the_stated_rate():
    """Of 6,000 answers about olive spots a quarter is false: standard error 0.0056."""
    world = load("clinic-v2-lies")
    cases, olive = drawn(world, 1000), world.findings.index("olive")
    truth = world.present[olive, 0, cases.disease] > 0.5
    false = (cases.answers[:, olive] != truth[:, None]).mean()
    assert false == pytest.approx(0.25, abs=0.022)


def test_no_step_before_a_reset():
    with pytest.raises(RuntimeError, match="reset the environment"):
        ClinicEnv().step("Final Answer: A")
    with pytest.raises(RuntimeError, match="reset the environment"):
        ClinicEnv().posterior()


def test_a_number_that_is_no_action_is_refused():
    many = Consultations(2, load())
    many.open(np.arange(2))
    for actions in ([0, 28], [-2, 0], [0]):
        with pytest.raises(ValueError, match="actions are 2 numbers from -1 to 27"):
            many.take(np.array(actions))
    assert many.take(np.array([NOTHING, 3]))[0][0] == UNHEARD


def test_what_candidates_would_bring_is_what_asking_brings():
    for name in NAMES:
        env = ClinicEnv(name)
        env.reset(seed=8)
        env.step("Any olive spots?")
        texts = ["Any olive spots?", "Any amber spots?", "amber and azure?", "Final Answer: A"]
        known, before = env.candidates(texts), env.heard.copy()
        assert known["q_star"][3] == pytest.approx(env.posterior()[env.game.cases.options[0, 0]])
        assert known["utilities"][2] == known["utilities"][3]
        assert known["replies"][2:] == ["", ""]
        assert (env.heard == before).all()
        belief = env.posterior()[env.game.cases.disease[0]]
        reply, _, _, _, info = env.step(texts[0])
        assert reply == known["replies"][0]
        after = env.posterior()[env.game.cases.disease[0]]
        assert after == pytest.approx(known["utilities"][0])
        assert info["turn_rewards"]["gain"] == pytest.approx(after - belief)


def test_the_expected_gain_is_the_mean_over_patients_of_the_gain():
    """Over the diseases and answers, by the posteriors after each answer."""
    env = ClinicEnv("clinic-v2-together")
    env.reset(seed=3)
    env.step("Any maroon spots?")
    finding = env.world.findings.index("olive")
    prior, mean, chances = env.posterior(), 0.0, 0.0
    for present in (0, 1):
        heard = env.heard.copy()
        heard[finding, present] = 1
        after = env.known.posterior(heard)
        # P(answer | disease) by Bayes: both posteriors give it up to P(answer), which sums to 1.
        chance = env.known.after_each_answer(env.heard, finding)[present].sum()
        mean += chance * float((after**2).sum())
        chances += chance
    assert chances == pytest.approx(1)
    _, _, _, _, info = env.step("Any olive spots?")
    gain = mean - float((prior**2).sum())
    assert info["turn_rewards"]["expected_gain"] == pytest.approx(gain)
    assert gain > 0.02


def test_a_group_for_turn_credit():
    turn_credit = pytest.importorskip("turn_credit")
    infos = []
    for texts in (["olive?", "Final Answer: A"], ["jade?", "olive?", "Final Answer: A"]):
        env = ClinicEnv()
        env.reset(seed=9)
        for text in texts:
            info = env.step(text)[4]
        infos.append(info)
    group = turn_credit.Group(**group_of(infos))
    assert [len(row) for row in group.beliefs] == [2, 3]
    assert group.states[0][0] == group.states[1][0] == frozenset()


@functools.cache
def score(name, rule, cases=80):
    return measure(doctor(RULES[rule]), name, cases, draw=DRAW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_losses_add_up_to_what_a_player_misses_of_the_best(name):
    """Rewards agree with V* less the losses on the mean, and a best player loses nothing."""
    for rule in ("random questions", "greedy, one question ahead"):
        mean, error = score(name, rule).score
        expected = score(name, rule).best - score(name, rule).lost
        assert mean == pytest.approx(expected, abs=4 * error)
    assert score(name, "best question (Q*)", 20).reached == (pytest.approx(1), pytest.approx(0))
    assert score(name, "no question", 20).reached[0] == pytest.approx(0)


@pytest.mark.parametrize("name", NAMES)
def test_planning_pays(name):
    """Greedy reaches at most 90 % of what questions can bring, by two standard errors."""
    share, error = score(name, "greedy, one question ahead").reached
    assert share + 2 * error < 0.9
    assert share > 0.3
