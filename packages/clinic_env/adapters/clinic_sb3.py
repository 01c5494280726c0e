"""PPO of stable-baselines3 in the clinic, and what it has learned as a player.

    python clinic_sb3.py --world clinic-v2-budget --steps 300000 --save ppo
    PPO=ppo python -m clinic_env leaderboard --world clinic-v2-budget --player clinic_sb3.py

The first trains in numbers (`DiscreteClinic`), one policy for each world. The second plays in
words, from the chats alone.
"""

import argparse
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from clinic_env.v2.chats import Chat, observations, world_name
from clinic_env.v2.env import question_about
from clinic_env.v2.gym import DiscreteClinic
from clinic_env.v2.world import NAMES, load

NAME = "PPO (stable-baselines3)"


def learner(world: str, seed: int = 0, side_by_side: int = 16) -> PPO:
    """PPO that has learned nothing yet.

    Args:
        world: name of a frozen world.
        seed: that of weights and cases.
        side_by_side: how many consultations it holds at a time.
    """
    env = make_vec_env(DiscreteClinic, side_by_side, seed, env_kwargs={"world": world})
    return PPO(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        n_steps=128,
        batch_size=min(512, 128 * side_by_side),
        gamma=1.0,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )


@cache
def trained(folder: Path, world: str) -> PPO:
    """The learner with the weights of `main`.

    They are read as tensors alone: a model that stable-baselines3 saves may hold any code.
    """
    model = learner(world, side_by_side=1)
    model.policy.load_state_dict(torch.load(folder / f"{world}.pt", weights_only=True))
    return model


def play(chats: Sequence[Chat]) -> list[str]:
    """The likeliest turn of the policy in each consultation, all of one world."""
    world = load(world_name(chats[0]))
    model = trained(Path(os.environ.get("PPO", "ppo")), world.name)
    numbers, _ = model.predict(observations(world, chats), deterministic=True)
    findings = len(world.findings)
    return [
        question_about(world.findings[number])
        if number < findings
        else f"Final Answer: {world.diseases[number - findings]}"
        for number in numbers.tolist()
    ]


def main() -> None:
    """Train, and save the weights."""
    parser = argparse.ArgumentParser(description="PPO of stable-baselines3 in the clinic.")
    parser.add_argument("--world", default=NAMES[0], choices=NAMES)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, default=Path("ppo"), help="folder of the weights")
    given = parser.parse_args()
    model = learner(given.world, given.seed).learn(given.steps)
    given.save.mkdir(parents=True, exist_ok=True)
    torch.save(model.policy.state_dict(), given.save / f"{given.world}.pt")


if __name__ == "__main__":
    main()
