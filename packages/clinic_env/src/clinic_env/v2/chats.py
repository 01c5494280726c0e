"""What a chat tells: a player gets messages and nothing else, and this reads them.

A chat is a list of messages as chat models take them: the handbook (`system`), the case's opening
(`user`), and then by turns the doctor's words (`assistant`) and the reply (`user`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.v2.world import NAMES, World

Chat = list[dict[str, str]]

_NAME = re.compile(r"clinic `([\w-]+)`")
_OPTION = re.compile(r"'([A-Z])': '(\w+)'")
_REPLY = re.compile(r"(\w+) spots (present|absent)\.")


@dataclass(frozen=True)
class Told:
    """A consultation as its chat tells it.

    Attributes:
        options: label -> disease.
        numbers: int [K], numbers of these diseases.
        complaint: number of what the case opens with.
        heard: int [F, 2], how often the patient answered "absent" and "present".
        left: questions that can still be answered.
    """

    options: dict[str, str]
    numbers: np.ndarray
    complaint: int
    heard: np.ndarray
    left: int


def world_name(chat: Chat) -> str:
    """The world of a chat's handbook.

    Raises:
        ValueError: it names none.
    """
    named = _NAME.search(chat[0]["content"])
    if not named or named[1] not in NAMES:
        raise ValueError("the chat's first message is no handbook of a clinic")
    return named[1]


def told(world: World, chat: Chat) -> Told:
    """What a chat tells of its consultation."""
    _, opening, *turns = chat
    options = dict(_OPTION.findall(opening["content"]))
    first = opening["content"].split(maxsplit=1)[0]
    heard = np.zeros((len(world.findings), 2), np.int64)
    for message in turns[1::2]:
        if reply := _REPLY.fullmatch(message["content"]):
            row, column = world.findings.index(reply[1]), int(reply[2] == "present")
            if world.fresh or not heard[row].any():
                heard[row, column] += 1
    return Told(
        options,
        np.array([world.diseases.index(name) for name in options.values()]),
        world.complaints.index(first),
        heard,
        world.questions - len(turns) // 2,
    )


def observation(
    world: World, options: np.ndarray, complaint: np.ndarray, heard: np.ndarray, turn: np.ndarray
) -> np.ndarray:
    """float32 [N, 2F + D + C + 1], what a doctor knows, as numbers.

    Answers "absent" and "present" of each finding, the case's options, its complaint, and the share
    of the turns that were taken.

    Args:
        world: the clinic.
        options: int [N, K].
        complaint: int [N].
        heard: int [N, F, 2].
        turn: int [N].
    """
    count = len(heard)
    listed = np.zeros((count, len(world.diseases)))
    listed[np.arange(count)[:, None], options] = 1
    opened = np.eye(len(world.complaints))[complaint]
    parts = [heard.reshape(count, -1), listed, opened, turn[:, None] / world.turns]
    return np.concatenate(parts, axis=1).astype(np.float32)


def observations(world: World, chats: Sequence[Chat]) -> np.ndarray:
    """`observation` of consultations that are chats."""
    known = [told(world, chat) for chat in chats]
    return observation(
        world,
        np.stack([one.numbers for one in known]),
        np.array([one.complaint for one in known]),
        np.stack([one.heard for one in known]),
        np.array([world.questions - one.left for one in known]),
    )
