"""The clinic for OpenEnv: a server, and the client that speaks with it.

    python clinic_openenv.py --port 8000          # or by openenv.yaml beside it

The observation is what a doctor may read: with the opening comes the handbook. What is known
exactly is in the server's state, which is for the trainer. Cases are those of the split `train`, or
of the variables CLINIC_WORLD and CLINIC_SPLIT.
"""

import argparse
import os
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

from clinic_env.v2.env import ClinicEnv
from clinic_env.v2.world import NAMES


class ClinicAction(Action):
    """A doctor's text."""

    text: str


class ClinicObservation(Observation):
    """The case's opening, or the patient's reply.

    Attributes:
        text: what the doctor reads.
        instruction: the handbook, with the opening alone.
    """

    text: str
    instruction: str = ""


class ClinicState(State):
    """What is known exactly; see `ClinicEnv.step`."""

    info: dict[str, Any] = Field(default_factory=dict)


class ClinicServer(Environment[ClinicAction, ClinicObservation, ClinicState]):
    """One session's consultations."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        world = os.environ.get("CLINIC_WORLD", NAMES[0])
        self._env = ClinicEnv(world, split=os.environ.get("CLINIC_SPLIT", "train"))
        self._state = ClinicState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> ClinicObservation:
        """Open a case."""
        text, info = self._env.reset(seed=seed)
        self._remember(info, episode_id)
        return ClinicObservation(text=text, instruction=self._env.instruction)

    def step(
        self, action: ClinicAction, timeout_s: float | None = None, **_: Any
    ) -> ClinicObservation:
        """Take a turn."""
        text, reward, done, _truncated, info = self._env.step(action.text)
        self._remember(info, self._state.episode_id)
        return ClinicObservation(text=text, reward=reward, done=done)

    @property
    def state(self) -> ClinicState:
        """What is known exactly of the present turn."""
        return self._state

    def _remember(self, info: dict[str, Any], episode_id: str | None) -> None:
        group = info.pop("group", None)  # its states are sets, which JSON has not
        if group:
            info["rewards"], info["beliefs"] = group["rewards"], group["beliefs"]
        self._state = ClinicState(episode_id=episode_id, step_count=info["turn"], info=info)


class ClinicClient(EnvClient[ClinicAction, ClinicObservation, ClinicState]):
    """Speaks with a server; see OpenEnv's `EnvClient`."""

    def _step_payload(self, action: ClinicAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ClinicObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = ClinicObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> ClinicState:
        return ClinicState(**payload)


app = create_fastapi_app(ClinicServer, ClinicAction, ClinicObservation, max_concurrent_envs=64)

if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description="Serve the clinic on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=8000)
    uvicorn.run(app, host="127.0.0.1", port=parser.parse_args().port)
