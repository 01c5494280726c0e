"""The plan's memory of an update, against torch's own operations at the models' real shapes."""

import dataclasses

import pytest
import torch
from simulated_device import largest_peak

from pcqc.planning.architecture import KNOWN
from pcqc.planning.fit import changed
from pcqc.planning.memory import activation_bytes
from pcqc.study import load_study

SHALLOW = dataclasses.replace(KNOWN["Qwen3-0.6B"], layers=4)
FEW_WORDS = dataclasses.replace(SHALLOW, vocabulary=4096)
# Study, model, number format, checkpointing, dense mask.
CASES = {
    "real": ("real", KNOWN["Qwen3-0.6B"], torch.bfloat16, True, False),
    "paper": ("paper", KNOWN["Qwen3-8B"], torch.bfloat16, True, False),
    "paper, with its scorer": ("paper", KNOWN["Qwen3-14B"], torch.bfloat16, True, False),
    "float32": ("paper", SHALLOW, torch.float32, True, False),
    "all activations kept": ("paper", SHALLOW, torch.bfloat16, False, False),
    "one part of logits": ("paper", FEW_WORDS, torch.bfloat16, True, False),
    "a dense mask": ("paper", SHALLOW, torch.bfloat16, True, True),
    "a dense mask, all activations kept": ("paper", SHALLOW, torch.bfloat16, False, True),
}


DEAR = "paper, with its scorer"  # the deepest model, which nobody trains


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "checkpointing", "dense"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.long] * (name == DEAR))
        for name, case in CASES.items()
    ],
)
def test_the_planned_peak_of_a_micro_batch(name, shape, dtype, checkpointing, dense):
    study = load_study(name)
    if dense:
        study = changed(study, "placement.device", "CPU")
    study = changed(study, "placement.learner.gradient_checkpointing", checkpointing)
    planned = activation_bytes(study, shape, dtype.itemsize)
    measured = largest_peak(name, shape, dtype, checkpointing, dense)
    assert measured == pytest.approx(planned, rel=0.1)
