"""Methods keep apart for readers with any common form of colour vision, and without colour."""

from itertools import combinations

import numpy as np
import pytest

from analysis.drawing.style import LOOKS

# Machado, Oliveira and Fernandes (2009): complete dichromacy, on linear RGB.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = TO_XYZ.sum(axis=1)


def lab(colour, vision):
    """CIE L*a*b* of a hexadecimal colour as seen."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(looks, vision):
    """Smallest distance of two methods' colours; 2.3 is just noticeable."""
    seen = {name: lab(colour, vision) for name, (colour, _) in looks.items()}
    return min(float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_colours_keep_apart(vision):
    assert nearest(LOOKS, vision) > 15


def test_print_without_colour_has_the_markers():
    assert len({marker for _, marker in LOOKS.values()}) == len(LOOKS)
    assert all(lab(colour, "usual")[0] < 75 for colour, _ in LOOKS.values())  # dark on white
