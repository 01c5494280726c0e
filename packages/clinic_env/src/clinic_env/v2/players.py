"""Doctors without a language model. Like every player, they get chats and give texts.

A player is a function: the chats of all open consultations in, the doctor's next text of each out.
The doctors here know the world's numbers, which the handbook states too.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from clinic_env.v2.chats import Chat, Told, told, world_name
from clinic_env.v2.env import question_about
from clinic_env.v2.values import SAME, CaseValues, Values
from clinic_env.v2.world import World, load

Player = Callable[[Sequence[Chat]], list[str]]
# A finding's number to ask about, or None to name the likeliest option.
Rule = Callable[[World, Told, CaseValues, np.random.Generator], int | None]


def no_question(world: World, now: Told, known: CaseValues, rng: np.random.Generator) -> None:
    """Names the likeliest option at once."""


def random_questions(
    world: World, now: Told, known: CaseValues, rng: np.random.Generator
) -> int | None:
    """Asks random questions, none twice, as long as the turns last."""
    (unasked,) = np.nonzero(~now.heard.any(axis=1))
    return int(rng.choice(unasked)) if now.left and len(unasked) else None


def options_in_order(
    world: World, now: Told, known: CaseValues, rng: np.random.Generator
) -> int | None:
    """Asks for the findings that are named as the options are, in the order of the labels."""
    for name in now.options.values():
        if name in world.findings and not now.heard[world.findings.index(name)].any():
            return world.findings.index(name) if now.left else None
    return None


def greedy(world: World, now: Told, known: CaseValues, rng: np.random.Generator) -> int | None:
    """Asks as if each question were the last one; stops where none is worth its price."""
    return _worth_asking(now, known, 1) if now.left else None


def informative(world: World, now: Told, known: CaseValues, rng: np.random.Generator) -> int | None:
    """Asks what tells most bits for its price; stops where certainty is not worth a price."""
    if not now.left:
        return None
    bits = known.information(now.heard)
    missing = 1 - known.posterior(now.heard).max()
    asked = (bits > SAME) & (world.prices < missing)
    worth = np.where(asked, bits / np.maximum(world.prices, SAME), 0)
    return int(worth.argmax()) if worth.any() else None


def best(world: World, now: Told, known: CaseValues, rng: np.random.Generator) -> int | None:
    """Asks a question of the highest Q*; stops where none is worth more than naming an option."""
    return _worth_asking(now, known, now.left)


RULES: dict[str, Rule] = {
    "no question": no_question,
    "random questions": random_questions,
    "options in order": options_in_order,
    "greedy, one question ahead": greedy,
    "most informative question": informative,
    "best question (Q*)": best,
}


def doctor(rule: Rule, seed: int = 0) -> Player:
    """The player that follows a rule; where it asks no more, it names the likeliest option."""
    rng, values = np.random.default_rng(seed), cache(lambda name: Values(load(name)))

    def text(chat: Chat) -> str:
        of_world = values(world_name(chat))
        world = of_world.world
        now = told(world, chat)
        known = of_world.of(now.numbers, now.complaint)
        asked = rule(world, now, known, rng)
        if asked is not None:
            return question_about(world.findings[asked])
        belief = known.posterior(now.heard)[now.numbers]
        return f"Final Answer: {list(now.options)[int(belief.argmax())]}"

    return lambda chats: [text(chat) for chat in chats]


def _worth_asking(now: Told, known: CaseValues, questions: int) -> int | None:
    """A best question if `questions` can be asked, where it is worth more than naming an option."""
    asked = known.best_question(now.heard, questions)
    if asked is None:
        return None
    least = known.posterior(now.heard).max() + SAME
    return asked if known.ask(now.heard, questions)[asked] > least else None
