"""`real` on one device of 80 GB and `paper` on eight, from the start to the last update."""

import pytest
import torch
from simulated_device import largest_peak
from walk import Full, Walk, machine

from pcqc.planning.architecture import architecture
from pcqc.planning.devices import DEVICES, GIB
from pcqc.planning.work import trained
from pcqc.study import load_study

STUDIES = {"real": "H100", "paper": "H800"}


@pytest.fixture(scope="module")
def activations() -> dict[str, float]:
    """Study -> GiB of a micro-batch's peak on the simulated device."""
    found = {}
    for name in STUDIES:
        study = load_study(name)
        shape, dtype = architecture(study, "actor")[1], getattr(torch, study.dtype("actor"))
        found[name] = largest_peak(name, shape, dtype) / GIB
    return found


def walked(name: str, activations: dict[str, float], device: float | None = None, **gib) -> Walk:
    study = load_study(name)
    there = machine(study, device or DEVICES[STUDIES[name]].memory_gib, **gib)
    walk = Walk(study, there, activations[name])
    walk.run()
    return walk


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_fits_from_its_start_to_its_last_update(name, activations):
    walk = walked(name, activations)
    methods = trained(walk.study).values()
    assert walk.updates == sum(method.updates * len(method.runs) for method in methods)
    assert not walk.machine.shm.held
    left = {what.split()[0] for what in walk.machine.device.held}
    assert left == ({"patient", "scorer"} if name == "paper" else set())


SHORT = {
    "devices of 40 GB": ("paper", {"device": 40.0}, "a device has 36.0 GiB: .*whole sft 15.3"),
    "a device of 40 GB": ("real", {"device": 40.0}, "a device has 36.0 GiB: .*scorer weights"),
    "a container's /dev/shm": ("paper", {"shm": 1 / 16}, "/dev/shm has 0.1 GiB: new weights 15.3"),
    "a small disk": ("paper", {"disk": 2900.0}, "the disk has 2900.0 GiB: models"),
    "little host memory": ("paper", {"host": 100.0}, "the host has 100.0 GiB: actor 122.1"),
}


@pytest.mark.parametrize(("name", "lacking", "said"), SHORT.values(), ids=SHORT)
def test_what_lacks_stops_the_walk(name, lacking, said, activations):
    with pytest.raises(Full, match=said):
        walked(name, activations, **lacking)
