"""Gymnasium's environment: `gymnasium.make("clinic_env.gym:Clinic-v1")`. Needs gymnasium."""

import string
from typing import Any, ClassVar

import gymnasium

from clinic_env.env import ClinicEnv

LONGEST = 4096  # characters of an action


class GymClinicEnv(gymnasium.Env[str, str]):
    """`ClinicEnv` with Gymnasium's spaces and random numbers; its arguments are those."""

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
        self.clinic.rng = self.np_random
        return self.clinic.reset(options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a turn; reply, reward, whether it has ended, False, and `info`."""
        return self.clinic.step(action)

    def render(self) -> str | None:
        """The consultation so far, a line each, in the mode `ansi`."""
        if self.render_mode != "ansi":
            return None
        return "\n".join(f"{turn['role']}: {turn['content']}" for turn in self.clinic.messages)


gymnasium.register("Clinic-v1", entry_point=GymClinicEnv)
