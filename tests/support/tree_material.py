"""Scripted roles and a critic for searches."""

import dataclasses

import numpy as np
from helpers import INSTRUCTION, PROTOCOL, make_tokenizer, scripted_roles
from scripted_engine import ScriptedEngine

from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext

COUGH, FEVER = "Question: any cough", "Question: any fever"
SAYS = (COUGH, FEVER, "no idea", "Final Answer: A", "Final Answer: B")


class Counted(ScriptedEngine):
    """Counts its calls."""

    calls = 0

    def generate(self, requests, sampling):
        self.calls += 1
        return super().generate(requests, sampling)


def make_context(says=SAYS, **protocol) -> RolloutContext:
    """An actor that picks among `says` by its random stream, and a patient with one answer."""
    return scripted_roles(
        ChatFormat(make_tokenizer(), INSTRUCTION),
        lambda prompt, stream: says[stream % len(says)],
        lambda prompt: "No cough.",
        dataclasses.replace(PROTOCOL, **protocol),
        engine=Counted,
    )


class Critic:
    """Outputs that are a function of the state alone; counts its calls."""

    calls = 0

    def __call__(self, states):
        self.calls += 1
        return [np.random.default_rng(sum(s) * 7919 + len(s)).normal(size=3) for s in states]
