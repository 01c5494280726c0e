"""What a question would tell in the clinic: the belief before it, the chances of its answers."""

import numpy as np

from clinic_env.posterior import answers_to, likelihoods, posterior
from clinic_env.world import World, asked_findings, read_findings, state_finding
from pcqc.cases.case import Case
from pcqc.consultation import Consultation, Turn


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

    def facts(
        self, case: Case, turn: Turn, option: int, rng: np.random.Generator
    ) -> tuple[str, ...]:
        """Facts of another patient with an option's disease, who would have said the same so far.

        What the patient was asked in vain is not among them; all else is, in plain wording.
        """
        known, asked = heard(self.world, turn)
        chances = likelihoods(self.world, case)[option]
        present = {f: bool(draw < chances[f]) for f, draw in enumerate(rng.random(len(chances)))}
        told = {f: is_so for f, is_so in (present | known).items() if f in known or f not in asked}
        return tuple(state_finding(self.world.findings[f], is_so) for f, is_so in told.items())


def heard(world: World, dialogue: Turn | Consultation) -> tuple[dict[int, bool], set[int]]:
    """Findings that had been answered, before a turn or in all, and those that were asked about."""
    answers = " ".join(exchange.answer for exchange in dialogue.exchanges)
    asked = [asked_findings(world, exchange.question) for exchange in dialogue.exchanges]
    return read_findings(world, answers), set().union(*asked)
