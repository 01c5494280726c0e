"""How a case is drawn, and from which seeds.

A case is one row of uniform numbers. So one consultation and thousands side by side draw the same
cases, and all doctors of a case meet the same answers, lies too.
"""

import hashlib
import secrets
from dataclasses import dataclass

import numpy as np

from clinic_env.v2.world import World

# Tasks for training, cases to choose among doctors, and cases that nobody knows beforehand.
TRAIN, VALIDATION, LEADERBOARD = SPLITS = ("train", "validation", "leaderboard")


@dataclass(frozen=True)
class Cases:
    """N patients.

    Attributes:
        options: int [N, K], numbers of the diseases in the order of the labels.
        complaint: int [N].
        disease: int [N].
        kind: int [N].
        answers: bool [N, F, R], the patient's r-th answer about a finding; R = 1 where a second
            one repeats the first.
    """

    options: np.ndarray
    complaint: np.ndarray
    disease: np.ndarray
    kind: np.ndarray
    answers: np.ndarray


def new_draw() -> str:
    """32 hexadecimal digits that nobody can guess: they name the cases of a leaderboard."""
    return secrets.token_hex(16)


def checked_split(split: str, draw: str | None) -> str:
    """The draw of a split: that of the leaderboard, made anew if it is None; otherwise empty.

    Raises:
        ValueError: the split is unknown, or has no draw.
    """
    if split not in SPLITS:
        raise ValueError(f"no split is called '{split}'; there are {', '.join(SPLITS)}")
    if split == LEADERBOARD:
        return new_draw() if draw is None else draw
    if draw is not None:
        raise ValueError(f"the cases of '{split}' are the same for all: leave the draw out")
    return ""


def stream(world: World, split: str, seed: int, draw: str = "") -> np.random.Generator:
    """Draws the cases that a seed names; no two splits, worlds or draws share a case's numbers."""
    name = f"{world.name}/{split}/{draw}/{int(seed)}".encode()
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest(), "big"))


def numbers_per_case(world: World) -> int:
    """How many uniform numbers a case takes."""
    return len(world.diseases) + 3 + len(world.findings) * _repeats(world)


def cases_of(world: World, uniform: np.ndarray) -> Cases:
    """Patients from uniform numbers: options and complaint first, then the disease given both.

    Args:
        world: the clinic.
        uniform: float [N, `numbers_per_case`], in [0, 1).
    """
    count, diseases, repeats = len(uniform), len(world.diseases), _repeats(world)
    options = uniform[:, :diseases].argsort(axis=1)[:, : world.options]
    for_complaint, for_disease, for_kind = uniform[:, diseases : diseases + 3].T
    complaint = (for_complaint * len(world.complaints)).astype(np.int64)
    weight = world.rates[options] * world.odds[complaint[:, None], options]
    chosen = _categorical(weight, for_disease)
    disease = options[np.arange(count), chosen]
    kind = _categorical(np.broadcast_to(world.kinds, (count, len(world.kinds))), for_kind)
    chance = world.answered_present[:, kind, disease].T[:, :, None]
    rest = uniform[:, diseases + 3 :].reshape(count, len(world.findings), repeats)
    return Cases(options, complaint, disease, kind, rest < chance)


def _repeats(world: World) -> int:
    return world.questions if world.fresh else 1


def _categorical(weight: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    share = weight.cumsum(axis=1)
    return (share <= share[:, -1:] * uniform[:, None]).sum(axis=1)
