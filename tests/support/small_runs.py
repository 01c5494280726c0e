"""A study of tiny sizes whose jobs run within seconds."""

import contextlib
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study
from pcqc_study.study_file.yaml_reader import read_settings


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@contextlib.contextmanager
def killed_at(
    owner: Any, name: str, when: Callable[..., bool] = lambda *_: True, *, after: bool = False
):
    """What is done within is killed at a call of the function `owner.name`.

    Args:
        owner: class or module of the function.
        when: picks the call by its arguments.
        after: whether the call has done its work then.
    """
    original = getattr(owner, name)

    def call(*arguments, **named):
        if not when(*arguments):
            return original(*arguments, **named)
        if after:
            original(*arguments, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        with pytest.raises(Killed):
            yield


def small_study(folder: Path, **changes):
    """The clinic's settings with tiny sizes."""
    data, scratch = (
        copy.deepcopy(read_settings(ROOT / "config" / "studies" / name).data)
        for name in ("clinic.yaml", "clinic-scratch.yaml")
    )
    del data["models"]
    data["scratch_model"] = scratch["scratch_model"]
    data["clinic"] |= {"diseases": 4, "training_cases": 6, "sft_conversations": 24}
    data["clinic"] |= {"sft_questions": [2]}
    for benchmark in data["benchmarks"].values():
        benchmark |= {"cases": 4, "options": [2, 3]}
    # Tokens are characters here.
    data["protocol"] |= {"max_turns": 3, "prompt_tokens": 600, "response_tokens": 600}
    data["protocol"] |= {"action_tokens": 48}
    data["actor_decoding"] = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 48}
    data["patient_decoding"] = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 16}
    data["sft"] = {"epochs": 12, "patient_epochs": 1, "batch_size": 8, "learning_rate": 0.01}
    data["rl"] = {
        "cases_per_update": 2,
        "learning_rate": 0.001,
        "checkpoint_every": 2,
        "save_every": 2,
    }
    data["methods"] = {"pcqc": {"terminal_group": 2, "question_group": 2, "updates": 5}}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**data, **changes}))
    return load_study(path)
