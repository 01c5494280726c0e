"""What a question would tell in the clinic: the belief before it, the chances of its answers."""

import numpy as np

from clinic_env.posterior import answers_to, posterior
from clinic_env.world import World, asked_findings, read_findings
from pcqc.cases.case import Case
from pcqc.consultation import Turn


class KnownWorld:
    """The world as methods may ask it; see `pcqc.methods.base.World`."""

    def __init__(self, world: World):
        self.world = world

    def belief(self, case: Case, turn: Turn) -> np.ndarray:
        """float [options], the Bayes posterior before a turn."""
        known, _ = heard(self.world, turn)
        return posterior(self.world, case, known)

    def answers(self, case: Case, turn: Turn, question: str | None) -> np.ndarray:
        """float [answers, options], P(answer | option) of what was not asked about before."""
        _, everything = heard(self.world, turn)
        new = asked_findings(self.world, question or "") - everything
        return answers_to(self.world, case, new)


def heard(world: World, turn: Turn) -> tuple[dict[int, bool], set[int]]:
    """Findings that had been answered before a turn, and those that had been asked about."""
    said = " ".join(exchange.answer for exchange in turn.exchanges)
    asked = [asked_findings(world, exchange.question) for exchange in turn.exchanges]
    return read_findings(world, said), set().union(*asked)
