"""Recorded consultations for the adapters of trainers, and what their tokens' advantages are.

The trainers are not installed here. Their structures are those of `trainers.json`: names of fields
and arguments as in the commit that it cites, so that an adapter which asks for another one fails.
"""

import copy
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

from turn_credit import Term, pcqc, token_advantages
from turn_credit.group import Group

BETA = 0.5
FIXTURES = Path(__file__).parents[1] / "fixtures" / "trainers"
OWN = "OWN_ENVIRONMENT" in os.environ  # the trainer is there: nothing stands in for it
TRAINERS = json.loads((FIXTURES / "trainers.json").read_text())
# Two cases of the published clinic doctor, two consultations each with two candidates at a state,
# as PCQC's `collect_rollouts` gave them on 2026-11-25.
CASES = json.loads((FIXTURES / "consultations.json").read_text())["cases"]


def no_candidates(case):
    for turn in turns_of(case):
        del turn["responses"][1:]
        turn["responses"][0] |= {"utility": None, "question": None}


def asks_at_once(case):
    """Questions stand at the first token of their response, and of the whole consultation."""
    for turn in turns_of(case):
        for response in turn["responses"]:
            if response["question_start"] is not None:
                response["tokens"] = response["tokens"][response["question_start"] :]
                response["question_start"] = 0


def cut_after_an_answer(case):
    """The last turn is not played: consultations end in a patient's answer."""
    for consultation in case["consultations"]:
        consultation["tail"] = consultation["turns"].pop()["context"]


def cut_within_a_turn(case):
    """A question is the last that is sampled, cut off after its first token."""
    for consultation in case["consultations"]:
        consultation["turns"].pop()
        for response in consultation["turns"][-1]["responses"]:
            stop = (response["question_start"] or len(response["tokens"]) - 2) + 1
            response["tokens"] = response["tokens"][:stop]


def turns_of(case):
    return [turn for consultation in case["consultations"] for turn in consultation["turns"]]


LAYOUTS = {
    "recorded": (None, None),
    "no candidates": (no_candidates, no_candidates),
    "candidates of one case": (None, no_candidates),
    "asks at once": (asks_at_once, asks_at_once),
    "cut after an answer": (cut_after_an_answer, cut_after_an_answer),
    "cut within a turn": (cut_within_a_turn, cut_within_a_turn),
}


def laid_out(layout: str) -> list[dict]:
    """The cases, changed as a layout says."""
    made = copy.deepcopy(CASES)
    for case, change in zip(made, LAYOUTS[layout], strict=True):
        if change:
            change(case)
    return made


def load(monkeypatch, name: str, **modules: dict) -> ModuleType:
    """An adapter's module by its name, with stand-ins for what it imports of the trainer."""
    for path, names in () if OWN else modules.items():
        parts = path.split("__")
        for end in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[0]))
        stand_in = ModuleType(".".join(parts))
        vars(stand_in).update(names)
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    module = f"turn_credit.adapters.{name}"
    if OWN:
        return importlib.import_module(module)
    sys.modules.pop(module, None)  # it is imported with the stand-ins, and forgotten with them
    loaded = importlib.import_module(module)
    del sys.modules[module]
    return loaded


def structure(trainer: str, kind: str, **values):
    """An object with the recorded fields of a class and no other; of the class where that is."""
    fields = TRAINERS[trainer]["classes"][kind]
    assert values.keys() <= set(fields)
    if OWN:
        own = getattr(importlib.import_module(TRAINERS[trainer]["module"]), kind)
        return own.model_construct(**values)
    return SimpleNamespace(**dict.fromkeys(fields) | values)


def responses(case):
    """(consultation, turn, candidate, response) of all that was sampled."""
    for c, consultation in enumerate(case["consultations"]):
        for t, turn in enumerate(consultation["turns"]):
            for k, response in enumerate(turn["responses"]):
                yield c, t, k, response


def expected(cases, tokens: int | None = None) -> dict[tuple, np.ndarray]:
    """(case, consultation, turn, candidate) -> advantages of its tokens, from the recorded terms.

    The terms are those that the method's own `collect_rollouts` gave.
    """
    places = [(i, *place[:3]) for i, case in enumerate(cases) for place in responses(case)]
    sampled = {(i, *p[:3]): p[3] for i, case in enumerate(cases) for p in responses(case)}
    terms = [
        Term(*zip(*rows, strict=True), weight)
        for name, weight in (("terminal", 1.0), ("question", BETA))
        if (
            rows := [
                ((row, start, len(sampled[place]["tokens"])), sampled[place][name])
                for row, place in enumerate(places)
                if sampled[place][name] is not None
                for start in [sampled[place]["question_start"] if name == "question" else 0]
            ]
        )
    ]
    shape = (len(places), max(len(response["tokens"]) for response in sampled.values()))
    advantages = token_advantages(shape, terms, tokens)
    return {p: advantages[i, : len(sampled[p]["tokens"])] for i, p in enumerate(places)}


def same(laid: dict, wanted: dict, tolerance: float = 1e-6) -> None:
    assert laid.keys() == wanted.keys()
    for place, values in wanted.items():
        assert np.shape(laid[place]) == values.shape
        np.testing.assert_array_equal(np.array(laid[place]) != 0, values != 0)
        np.testing.assert_allclose(laid[place], values, tolerance)


def credits_of(turn) -> np.ndarray:
    return pcqc(Group(utilities=[[r["utility"] for r in turn["responses"]]]))[0]
