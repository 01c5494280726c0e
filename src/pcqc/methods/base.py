"""What a method of reinforcement learning is, and what a run lends it.

A method is its settings and the functions of `RlMethod` below; the training loop knows no more.
`Method` of `pcqc_base.settings.every_method` has the settings that every method has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext, Turn
from pcqc.methods.rollouts import RolloutBatch
from pcqc.roles import Scorer
from pcqc_base.settings import Method, Rl

if TYPE_CHECKING:
    from pcqc.training.backend import MakeBackend
    from pcqc.training.policy import Policy, UpdateReport

# What `needs` may name: the frozen Shared SFT policy of the KL penalty; the frozen scorer; a critic
# in training; the synthetic clinic's probabilities.
SERVICES = frozenset({"reference", "scorer", "critic", "world"})


class World(Protocol):
    """What is known exactly in the synthetic clinic, given what was said before a turn."""

    def belief(self, case: Case, turn: Turn) -> np.ndarray:
        """float [options], the Bayes posterior."""

    def answers(self, case: Case, turn: Turn, question: str | None) -> np.ndarray:
        """float [answers, options], P(answer | option) of each answer a question might get."""

    def facts(
        self, case: Case, turn: Turn, option: int, rng: np.random.Generator
    ) -> tuple[str, ...]:
        """Facts of another patient for whom the option is right, who would have said the same."""


@dataclass
class Services:
    """What a run lends its method; None where the method does not need it.

    Attributes:
        policy: the actor in training.
        seed: the run's; part of every random stream's name.
        scorer: frozen.
        critic: in training, as the method made it.
        world: the synthetic clinic's.
        memory: plain data kept from update to update, saved and resumed with the run.
    """

    policy: "Policy"
    seed: int
    scorer: Scorer | None = None
    critic: Any = None
    world: World | None = None
    memory: dict = field(default_factory=dict)


class RlMethod(Method):
    """A method that is trained by reinforcement learning."""

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent: the reference model where there is a KL penalty."""
        return frozenset({"reference"} if self.kl_coefficient else ())

    def collect_rollouts(
        self, services: Services, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> RolloutBatch:
        """Sample an update's consultations and credit them.

        Args:
            services: what it needs.
            context: roles and rules.
            cases: the update's.
            update: its number; part of every random stream's name.
        """
        raise NotImplementedError

    def learn(self, services: Services, update: int, batch: Any) -> "UpdateReport":
        """Take the optimiser steps of an update on what `collect_rollouts` returned."""
        raise NotImplementedError

    def make_critic(self, body: Any, ending: int, rl: Rl, backend: "MakeBackend") -> Any:
        """The critic of a method that needs one: `state` is saved, `backend` takes its steps.

        Args:
            body: Shared SFT's model without its output layer, trained in place.
            ending: number of tokens of the generation prompt that ends a state.
            rl: weight decay, gradient clipping, micro-batch size.
            backend: what takes the optimiser steps.
        """
        raise NotImplementedError
