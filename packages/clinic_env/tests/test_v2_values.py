"""Posterior and Q* against plain recursion in fractions, and against every policy of a tiny world.

Nothing here uses the package's arithmetic: the recursion reads a world as its file states it, and
follows answers in their order, each history for itself.
"""

import json
from fractions import Fraction
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

from clinic_env.v2.cases import cases_of, numbers_per_case, stream
from clinic_env.v2.values import NOTHING, Values
from clinic_env.v2.world import NAMES, load, world_of


def stated(turns=4, fresh=False, lies=0.0, prices=(0.0, 0.0, 0.0), kinds=(0.5, 0.5)):
    """A small world: three diseases, three findings, the last of which tells the kind."""
    rows = [[[0.9, 0.2, 0.2], [0.1, 0.8, 0.3]], [[0.3, 0.7, 0.6], [0.9, 0.2, 0.4]]]
    rows.append([[0.95] * 3, [0.05] * 3])
    names = ("amber", "azure", "coral")
    return {
        "name": "small",
        "turns": turns,
        "options": 3,
        "lies": lies,
        "fresh": fresh,
        "kinds": list(kinds),
        "diseases": dict(zip(names, (5, 3, 2), strict=True)),
        "complaints": {"fatigue": [1, 2, 1]},
        "findings": {
            name: {"price": price, "present": row[: len(kinds)]}
            for name, price, row in zip(names, prices, rows, strict=True)
        },
    }


class Recursion:
    """Values of a case in fractions, from the file's own numbers, history by history."""

    def __init__(self, content, options, complaint):
        self.content = content
        exact = lambda number: Fraction(str(number))  # noqa: E731
        rates = [exact(rate) for rate in content["diseases"].values()]
        odds = [exact(odd) for odd in list(content["complaints"].values())[complaint]]
        kinds = [exact(share) for share in content["kinds"]]
        self.start = {
            (d, k): rates[d] * odds[d] * kinds[k] for d in options for k in range(len(kinds))
        }
        lies = exact(content["lies"])
        self.present, self.prices = [], []
        for row in content["findings"].values():
            self.prices.append(exact(row["price"]))
            table = [[exact(p) for p in kind] for kind in row["present"]]
            self.present.append([[p * (1 - lies) + (1 - p) * lies for p in k] for k in table])

    def after(self, weight, finding, answer):
        chance = self.present[finding]
        return {
            (d, k): w * (chance[k][d] if answer else 1 - chance[k][d])
            for (d, k), w in weight.items()
        }

    def belief(self, weight):
        total, of_diseases = sum(weight.values()), {}
        for (d, _), w in weight.items():
            of_diseases[d] = of_diseases.get(d, 0) + w / total
        return of_diseases

    def value(self, weight, asked, left):
        questions = range(len(self.prices)) if left else ()
        named = max(self.belief(weight).values())
        return max([named, *(self.ask(weight, asked, left, f) for f in questions)])

    def ask(self, weight, asked, left, finding):
        if finding in asked and not self.content["fresh"]:  # the answer is known: only it is paid
            return self.value(weight, asked, left - 1) - self.prices[finding]
        total, value = sum(weight.values()), -self.prices[finding]
        for answer in (False, True):
            later = self.after(weight, finding, answer)
            share = sum(later.values()) / total
            value += share * self.value(later, asked | {finding}, left - 1)
        return value


SMALL = {
    "two kinds": stated(),
    "prices": stated(prices=(0.05, 0.01, 0.2)),
    "lies, asked anew": stated(fresh=True, lies=0.25),
    "lies, repeated": stated(lies=0.1, kinds=(1.0,)),
}


@pytest.mark.parametrize("content", SMALL.values(), ids=SMALL)
def test_a_small_world_s_values_are_those_of_the_recursion(content):
    """At each history of two answers, every question with one, two and three left."""
    world, slow = world_of(content), Recursion(content, range(3), 0)
    known = Values(world).of(range(3), 0)
    for first, second in product(range(6), repeat=2):
        heard, weight, asked = np.zeros((3, 2), int), slow.start, set()
        left = world.questions
        for answer in (first, second):
            for f in range(3):
                exact = float(slow.ask(weight, asked, left, f))
                assert known.ask(heard, left)[f] == pytest.approx(exact, abs=1e-12)
            nothing = float(slow.value(weight, asked, left - 1))
            assert known.turn(heard, left, NOTHING) == pytest.approx(nothing, abs=1e-12)
            finding, present = divmod(answer, 2)
            if finding not in asked or world.fresh:
                weight = slow.after(weight, finding, present)
                heard[finding, present] += 1
            asked, left = asked | {finding}, left - 1
        value = float(slow.value(weight, asked, left))
        assert known.value(heard, left) == pytest.approx(value, abs=1e-12)
        belief = [float(slow.belief(weight)[d]) for d in range(3)]
        assert known.posterior(heard) == pytest.approx(belief, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_world_s_values_are_those_of_the_recursion(name):
    """Two questions before the end, after random answers; every question, every disease."""
    content = json.loads(files("clinic_env").joinpath(f"worlds/{name}.json").read_text())
    world, rng = load(name), np.random.default_rng(0)
    drawn = cases_of(world, stream(world, "train", 1).random((1, numbers_per_case(world))))
    options, complaint = drawn.options[0], int(drawn.complaint[0])
    slow, known = Recursion(content, options.tolist(), complaint), Values(world)
    weight, asked = slow.start, set()
    heard = np.zeros((len(world.findings), 2), int)
    for _ in range(world.questions - 2):
        finding, present = int(rng.integers(len(world.findings))), int(rng.integers(2))
        if finding in asked and not world.fresh:
            continue
        weight, asked = slow.after(weight, finding, present), asked | {finding}
        heard[finding, present] += 1
    case = known.of(options[::-1], complaint)
    for f in range(len(world.findings)):
        assert case.ask(heard, 2)[f] == pytest.approx(float(slow.ask(weight, asked, 2, f)))
    belief = slow.belief(weight)
    assert case.posterior(heard)[options] == pytest.approx([float(belief[d]) for d in options])
    assert case.value(heard, 2) == pytest.approx(float(slow.value(weight, asked, 2)))


def policies(questions, findings, diseases):
    """Every policy: name a disease, or ask about a finding and go on by its answer."""
    yield from ((None, d) for d in range(diseases))
    if questions:
        later = list(policies(questions - 1, findings, diseases))
        for finding in range(findings):
            yield from ((finding, pair) for pair in product(later, repeat=2))


def reached(slow, policy, weight):
    """A policy's score times the probability of what was heard."""
    finding, rest = policy
    if finding is None:
        return sum(w for (d, _), w in weight.items() if d == rest)
    score = -slow.prices[finding] * sum(weight.values())
    for answer in (False, True):
        score += reached(slow, rest[answer], slow.after(weight, finding, answer))
    return score


def test_no_policy_of_a_tiny_world_reaches_more_than_the_value_and_one_reaches_it():
    """Two diseases, two findings, two questions, answers anew: all 202 policies.

    With T policies for a question less there are 2 + 2 T^2: 2, 10, 202.
    """
    content = stated(turns=3, fresh=True, lies=0.1, prices=(0.03, 0.02, 0.0), kinds=(1.0,))
    content["options"], content["diseases"] = 2, {"amber": 3, "azure": 2}
    content["complaints"] = {"fatigue": [1, 1]}
    content["findings"].pop("coral")
    for row in content["findings"].values():
        row["present"] = [kind[:2] for kind in row["present"]]
    slow, world = Recursion(content, range(2), 0), world_of(content)
    total = sum(slow.start.values())
    scores = [float(reached(slow, p, slow.start) / total) for p in policies(2, 2, 2)]
    assert len(scores) == 202
    value = Values(world).of(range(2), 0).value(np.zeros((2, 2), int), 2)
    assert max(scores) == pytest.approx(value, abs=1e-12)
    assert max(scores) > max(scores[:2])  # so asking is worth its price


def test_the_bits_of_a_finding_are_those_of_a_textbook():
    """One fair question about two equal diseases, false with probability 0.25: 1 - H(0.25)."""
    content = stated(turns=2, lies=0.25, kinds=(1.0,))
    content |= {"options": 2, "diseases": {"amber": 1, "azure": 1}}
    content["complaints"] = {"fatigue": [1, 1]}
    content["findings"] = {"amber": {"price": 0.0, "present": [[1.0, 0.0]]}}
    known = Values(world_of(content)).of(range(2), 0)
    entropy = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert known.information(np.zeros((1, 2), int)) == pytest.approx([1 - entropy])
    # Without fresh answers a second one is known beforehand.
    assert known.information(np.array([[0, 1]])) == [0]
