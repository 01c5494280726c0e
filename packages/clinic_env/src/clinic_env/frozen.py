"""Frozen worlds by name: what `clinic-v1` is never changes."""

import json
from dataclasses import dataclass
from importlib.resources import files

from clinic_env.world import World

NAMES = ("clinic-v1",)


@dataclass(frozen=True)
class Rules:
    """How cases are drawn from a world, and how long a consultation lasts.

    Attributes:
        options: numbers of options that a case can have, equally likely.
        recorded_facts: share of the findings that the patient knows of.
        wording: how facts and answers are put, `plain` or `reported`.
        base_rates: how likely each disease is, `uniform` or `skewed`.
        max_turns: turns of a consultation; a question of the last one is not answered.
    """

    options: tuple[int, ...]
    recorded_facts: float
    wording: str
    base_rates: str
    max_turns: int


def load(name: str = "clinic-v1") -> tuple[World, Rules]:
    """A frozen world and its rules.

    Raises:
        ValueError: there is no world of that name.
    """
    if name not in NAMES:
        raise ValueError(f"no world is called '{name}'; there are {', '.join(NAMES)}")
    content = json.loads(files("clinic_env").joinpath(f"worlds/{name}.json").read_bytes())
    rules = content["rules"]
    return World.from_json(content["world"]), Rules(**{**rules, "options": tuple(rules["options"])})
