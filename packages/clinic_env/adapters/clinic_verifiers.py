"""The clinic for verifiers (0.4, `verifiers.v1`): tasks by seed, and the patient as the user.

Put this file on Python's path; its name is the taskset's: `--env.taskset.id clinic_verifiers`.
Training has the split `train`, an evaluation `validation`. No task is a case of a leaderboard,
whose cases are drawn anew.
"""

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from clinic_env.v2.env import ClinicEnv

__all__ = ["ClinicConversation", "ClinicTaskset"]


class ClinicConfig(vf.TasksetConfig):
    """Which cases: of which world and split, their number, and the seed of the first."""

    world: str = "clinic-v2-budget"
    split: Literal["train", "validation"] = "train"
    cases: int = 1000
    first_seed: int = 0


class ClinicData(vf.TaskData):
    """A case by its world, split and seed."""

    world: str
    split: str
    seed: int


class ClinicTask(vf.Task[ClinicData]):
    """One consultation; the environment scores it."""


class ClinicTaskset(vf.Taskset[ClinicTask, ClinicConfig]):
    """Cases in the order of their seeds."""

    def load(self) -> Iterator[ClinicTask]:
        """Yield a task for each case."""
        world, split = self.config.world, self.config.split
        env = ClinicEnv(world, split=split, exact=False)
        for number in range(self.config.cases):
            seed = self.config.first_seed + number
            opening, _ = env.reset(seed=seed)
            data = ClinicData(
                name=f"{world}/{split}#{seed}",
                prompt=opening,
                system_prompt=env.instruction,
                world=world,
                split=split,
                seed=seed,
            )
            yield ClinicTask(data, self.config.task)


class ClinicConversationConfig(vf.EnvConfig):
    """The one seat: the doctor."""

    doctor: vf.AgentConfig = vf.AgentConfig()


class ClinicConversation(vf.Env[ClinicConversationConfig]):
    """The patient answers each of the doctor's turns until the diagnosis."""

    async def run(self, task: ClinicTask, agents: vf.Agents) -> None:
        """Play one case; the trace has the reward and what is known exactly of the turns."""
        env = ClinicEnv(task.data.world, split=task.data.split)
        _, info = env.reset(seed=task.data.seed)
        turns: list[dict[str, float]] = []
        async with agents.doctor.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                reply, _, done, _, info = env.step(segment.last_reply)
                turns.append(info["turn_rewards"])
                if done:
                    break
                segment = await interaction.turn(reply)
        interaction.trace.record_reward("score", env.score, 1.0)
        interaction.trace.record_metric("turns", float(info["turn"]))
        interaction.trace.info["turn_rewards"] = turns
