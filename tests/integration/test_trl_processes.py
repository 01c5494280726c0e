"""TRL on two processes: the gradient is that of one, however cases and rows fall to them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from trl_trainer import PAIRS, batch, by_hand

WORKER = Path(__file__).parents[1] / "support" / "trl_trainer.py"
TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """What two processes wrote, over gloo."""
    folder = tmp_path_factory.mktemp("two")
    variables = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *TWO, str(WORKER), str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow  # it starts processes; `test_trl_trainer.py` has the gradient of one
@pytest.mark.parametrize(("layout", "split"), PAIRS)
def test_two_processes_have_the_gradient_of_one(written, layout, split):
    own = by_hand(batch(layout, split))
    assert torch.linalg.norm(own) > 1
    for rank in (0, 1):
        theirs = torch.from_numpy(np.load(written / f"{layout}-{split}-{rank}.npy"))
        assert torch.linalg.norm(theirs - own) < 1e-5 * torch.linalg.norm(own)


@pytest.mark.slow
def test_a_credit_across_the_update_reads_the_groups_of_both(written):
    """Gains 0.2 and 0 of the first process, 1.2 of the second: mean 7/15."""
    deviation = np.std([0.2, 0.0, 1.2], ddof=1)
    expected = (np.array([0.2, 0.0, 1.2]) - 7 / 15) / deviation
    credits = [np.load(written / f"credits-{rank}.npy") for rank in (0, 1)]
    assert [len(own) for own in credits] == [2, 1]
    assert np.concatenate(credits) == pytest.approx(expected, rel=1e-5)
