"""Random streams without state: every draw is a function of where it is made.

A draw is named by the run's seed, its coordinates (role, case, rollout, turn, candidate) and its
number within their stream. Methods share the names, so they share the draws: the first response of
a case's first consultation uses the same random numbers under every method, and a resumed run uses
those that it would have used unbroken.
"""

import hashlib

import numpy as np

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def stream(seed: int, *coordinates: str | int) -> int:
    """64-bit name of the stream at `coordinates`, the same on every machine."""
    text = "\x1f".join([str(seed), *map(str, coordinates)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(streams: np.ndarray, draw: int) -> np.ndarray:
    """The `draw`-th number of each stream, uniform on [0, 1).

    Args:
        streams: uint64, any shape.
        draw: number of the draw within its stream, from 0.

    Returns:
        float64 of the same shape (53 random bits each; SplitMix64, Steele et al. 2014).
    """
    with np.errstate(over="ignore"):
        z = streams.astype(np.uint64) + np.uint64(draw + 1) * _INCREMENT
        z = (z ^ (z >> np.uint64(30))) * _MIX[0]
        z = (z ^ (z >> np.uint64(27))) * _MIX[1]
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(seed: int, *coordinates: str | int) -> np.random.Generator:
    """A numpy generator for the stream at `coordinates` (shuffles and synthetic cases)."""
    return np.random.Generator(np.random.PCG64(stream(seed, *coordinates)))
