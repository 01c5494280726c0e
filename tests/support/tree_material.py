"""Scripted roles and a critic for searches."""

import dataclasses

import numpy as np
from helpers import INSTRUCTION, PROTOCOL, make_tokenizer

from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.engines.scripted import ScriptedEngine
from pcqc.roles import Actor, Patient
from pcqc.settings import Decoding

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
    chat = ChatFormat(make_tokenizer(), INSTRUCTION)
    actor = Counted(lambda prompt, s: [*chat.encode(says[s % len(says)]), chat.end_of_turn])
    patient = Counted(lambda prompt, s: [*chat.encode("No cough."), chat.end_of_turn])
    decoding = Decoding(temperature=1.0, top_p=1.0, max_tokens=PROTOCOL.action_tokens)
    rules = dataclasses.replace(PROTOCOL, **protocol)
    return RolloutContext(
        Actor(actor, chat, decoding), Patient(patient, chat, decoding), chat, rules
    )


class Critic:
    """Outputs that are a function of the state alone; counts its calls."""

    calls = 0

    def __call__(self, states):
        self.calls += 1
        return [np.random.default_rng(sum(s) * 7919 + len(s)).normal(size=3) for s in states]
