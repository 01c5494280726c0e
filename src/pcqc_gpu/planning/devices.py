"""Kinds of devices: their memory and their peak speed."""

import re
from dataclasses import dataclass

from pcqc.errors import UserError, nearest

GIB = 2**30


@dataclass(frozen=True)
class Device:
    """One accelerator.

    Attributes:
        memory_gib: as its driver reports it.
        bfloat16: peak FLOP/s of dense tensor operations, from the maker's data sheet (SXM form
            where there is one).
        float32: peak FLOP/s without tensor operations, likewise.
        link: bytes/s that it sends to others of its node: 80 % of one direction of the data
            sheet's NVLink, or PCI Express where it has none. The share is assumed.
    """

    memory_gib: float
    bfloat16: float
    float32: float
    link: float

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s in a number format."""
        return getattr(self, dtype)


DEVICES = {
    "H200": Device(140.4, 989e12, 67e12, 360e9),
    "H100": Device(79.6, 989e12, 67e12, 360e9),
    "H800": Device(79.6, 989e12, 67e12, 160e9),
    "H20": Device(95.6, 148e12, 44e12, 360e9),
    "A100": Device(80.0, 312e12, 19.5e12, 240e9),
    "A100-40GB": Device(40.0, 312e12, 19.5e12, 240e9),
    "A800": Device(80.0, 312e12, 19.5e12, 160e9),
    "L40S": Device(45.0, 362e12, 91.6e12, 26e9),
    "RTX-4090": Device(24.0, 165e12, 82.6e12, 26e9),
    # A process on a core of a common machine: small models only.
    "CPU": Device(16.0, 5e10, 5e10, 1e9),
}

# Words of a driver's name for a device that do not make it another kind. PCIe and NVL cards, chips
# of laptops and parts of a device are other kinds: their peak speed differs.
FORM = re.compile(r"NVIDIA|GeForce|SXM\d*|HBM\w*|\d+GB")


def device(kind: str) -> Device:
    """The device of that name; UserError with the nearest where there is none."""
    if kind not in DEVICES:
        raise UserError(f"placement.device: no kind '{kind}'{nearest(kind, DEVICES)}")
    return DEVICES[kind]


def named(name: str) -> str | None:
    """Kind of the device that a driver calls `NVIDIA H100 80GB HBM3`, say; None where unsure."""
    words = set(re.split(r"[ -]", name))
    parts = {kind: set(kind.split("-")) for kind in DEVICES}
    fitting = [
        kind
        for kind, own in parts.items()
        if own <= words and all(FORM.fullmatch(word) for word in words - own)
    ]
    return max(fitting, key=len, default=None)
