"""How training jobs are started, and what jobs ask of a scheduler; nothing runs."""

import re

from workplace import Workplace


def test_a_launcher_starts_what_learns_and_nothing_else(tmp_path):
    place = Workplace(tmp_path / "place")
    command = place.workflow("--dry-run", "--printshellcmds", "terminal_only")
    command += ["launcher=srun --nodes 2 torchrun --rdzv-endpoint $(hostname):29500 -m"]
    done = place.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    started = re.findall(r"^Shell command: \((.*?) pcqc\.cli (\S+)", done.stdout, re.MULTILINE)
    launched = [name for start, name in started if start.startswith("srun --nodes 2 torchrun")]
    assert launched == ["sft", "train"]
    assert {"clinic", "pretrain", "select", "evaluate"} < {name for _, name in started}
