"""Kinds of devices and their memory."""

from pcqc_base.errors import UserError, nearest

GIB = 2**30

# GiB, as the driver reports them.
DEVICES = {
    "H200": 140.4,
    "H100": 79.6,
    "H800": 79.6,
    "H20": 95.6,
    "A100": 80.0,
    "A100-40GB": 40.0,
    "A800": 80.0,
    "L40S": 45.0,
    "RTX-4090": 24.0,
    "GPU": 24.0,  # whichever there is, of at least so much
    "CPU": 16.0,  # a process on a core of a common machine: small models only
}


def device_gib(kind: str) -> float:
    """Memory of a kind of device; UserError with the nearest name where there is none."""
    if kind not in DEVICES:
        raise UserError(f"placement.device: no kind '{kind}'{nearest(kind, DEVICES)}")
    return DEVICES[kind]
