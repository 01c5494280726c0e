"""What a player is told: the handbook, and the chat of a consultation."""

import re

import numpy as np
import pytest

from clinic_env.v2 import NAMES, ClinicEnv, handbook, load
from clinic_env.v2.chats import observation, observations, told


@pytest.mark.parametrize("name", NAMES)
def test_the_handbook_states_every_number_of_the_world(name):
    """Rates, odds, prices and percentages, read back from its sentences."""
    world, text = load(name), handbook(load(name))
    rates = dict(re.findall(r"(\w+) ([\d.]+)[,.]", text.split("rates: ")[1].split("\n")[0] + "."))
    stated = np.array([float(rates[d].rstrip(".")) for d in world.diseases])
    assert stated / stated.sum() == pytest.approx(world.rates)
    for complaint, odds in zip(world.complaints, world.odds, strict=True):
        line = re.search(rf"- {complaint}: (.*)\.", text)[1]
        assert groups(line, r"x ([\d.]+)", world.diseases) == odds.tolist()
    for finding, price, kinds in zip(world.findings, world.prices, world.present, strict=True):
        line = re.search(rf"- {finding} spots(, price [\d.]+)?: (.*)\.", text)
        assert float((line[1] or ", price 0")[8:]) == price
        rows = re.findall(r"kind \d: ([^.]*)", line[2]) or [line[2]] * len(kinds)
        for row, present in zip(rows, kinds, strict=True):
            read = groups(row, r"([\d.]+) %", world.diseases)
            assert read == pytest.approx((100 * present).tolist())
    assert f"You have {world.turns} turns" in text
    assert ("false with probability 0.25" in text) == (world.lies > 0)


def groups(line, number, diseases):
    """The number of each disease in `98 % of amber, azure; 2 % of the others`."""
    values, rest = {}, None
    for part in line.split("; "):
        value, names = re.fullmatch(rf"{number} of (.*)", part).groups()
        if names in ("all", "the others"):
            rest = float(value)
        else:
            values |= dict.fromkeys(names.split(", "), float(value))
    return [values.get(disease, rest) for disease in diseases]


@pytest.mark.parametrize("name", NAMES)
def test_a_chat_tells_what_the_environment_holds(name):
    env = ClinicEnv(name, exact=False)
    env.reset(seed=6)
    for text in ("Any olive spots?", "hm", "olive?", "Any amber spots?")[: env.world.turns - 1]:
        env.step(text)
    now, game = told(env.world, env.messages), env.game
    assert (now.heard == env.heard).all()
    assert (now.numbers == game.cases.options[0]).all()
    assert (now.complaint, now.left) == (game.cases.complaint[0], env.questions_left)
    cases = game.cases
    seen = observation(env.world, cases.options, cases.complaint, game.heard, game.turn)
    assert (observations(env.world, [env.messages]) == seen).all()
    roles = [message["role"] for message in env.messages]
    assert roles == ["system", "user", *["assistant", "user"] * game.turn[0]]
