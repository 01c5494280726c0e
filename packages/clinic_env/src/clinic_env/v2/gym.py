"""Gymnasium's forms of the clinic: in words, in numbers, and many at once. Needs gymnasium.

gymnasium.make("Clinic-v2", world="clinic-v2-lies")
gymnasium.make("ClinicDiscrete-v2")
gymnasium.make_vec("ClinicDiscrete-v2", num_envs=1024, vectorization_mode="vector_entry_point")
"""

import string
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from clinic_env.v2.chats import observation
from clinic_env.v2.consultations import Consultations
from clinic_env.v2.env import ClinicEnv
from clinic_env.v2.world import NAMES, World, load

LONGEST = 4096  # characters of a text


class TextClinic(gymnasium.Env[str, str]):
    """`ClinicEnv` with Gymnasium's spaces; its arguments are those."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(self, render_mode: str | None = None, **settings: Any):
        self.clinic, self.render_mode = ClinicEnv(**settings), render_mode
        self.action_space = gymnasium.spaces.Text(LONGEST, charset=string.printable)
        self.observation_space = gymnasium.spaces.Text(LONGEST, charset=string.printable)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Open a consultation; the first observation, and `info`."""
        super().reset(seed=seed)
        return self.clinic.reset(seed=seed)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a turn; reply, reward, whether it has ended, False, and `info`."""
        return self.clinic.step(action)

    def render(self) -> str | None:
        """The consultation so far, a line each, in the mode `ansi`."""
        if self.render_mode != "ansi":
            return None
        _, *turns = self.clinic.messages
        return "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


class DiscreteClinic(gymnasium.Env[np.ndarray, np.int64]):
    """One consultation in numbers, without a language: a finding's number, or F + a disease's.

    Observations are those of `chats.observation`.

    Args:
        world: name of a frozen world.
        split: the cases'.
        draw: which of the leaderboard's cases.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, world: str = NAMES[0], split: str = "train", draw: str | None = None):
        self.game = Consultations(1, load(world), split, draw)
        self.observation_space, self.action_space = _spaces(self.game.world)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Open a case; a seed names it and those of later calls without one."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.open(np.zeros(1, np.int64))
        return _observation(self.game)[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a turn; `ValueError` if the number is no action."""
        _, (reward,) = self.game.take(np.array([action]))
        return _observation(self.game)[0], float(reward), bool(self.game.done[0]), False, {}


class VectorClinic(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """N consultations in numbers: row i plays what `DiscreteClinic` plays from seed + i.

    A row that has ended opens its next case in the following step, whose action it ignores.

    Args:
        num_envs: N.
        world: name of a frozen world.
        split: the cases'.
        draw: which of the leaderboard's cases.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        world: str = NAMES[0],
        split: str = "train",
        draw: str | None = None,
        render_mode: None = None,
    ):
        self.num_envs, self.game = num_envs, Consultations(num_envs, load(world), split, draw)
        self.single_observation_space, self.single_action_space = _spaces(self.game.world)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Open a case in each row; a seed names them and the later ones."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.open(np.arange(self.num_envs))
        return _observation(self.game), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a turn in each row."""
        (ended,) = np.nonzero(self.game.done)
        _, rewards = self.game.take(actions)
        self.game.open(ended)
        cut = np.zeros(self.num_envs, bool)
        return _observation(self.game), rewards, self.game.done.copy(), cut, {}


def _spaces(world: World) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Discrete]:
    findings, diseases = len(world.findings), len(world.diseases)
    size = 2 * findings + diseases + len(world.complaints) + 1
    seen = gymnasium.spaces.Box(0, world.questions, (size,), np.float32)
    return seen, gymnasium.spaces.Discrete(findings + diseases)


def _observation(game: Consultations) -> np.ndarray:
    cases = game.cases
    return observation(game.world, cases.options, cases.complaint, game.heard, game.turn)
