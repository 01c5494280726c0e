"""How jobs are started, and what they ask of a scheduler."""

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
    assert {"clinic", "base", "select", "evaluate"} < {name for _, name in started}


def test_the_clone_may_lie_in_a_folder_of_any_name(tmp_path):
    place = Workplace(tmp_path / "a b'$(c)")
    done = place.run(place.workflow("--until", "clinic"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (place.results / "data/clinic/latest/manifest.json").is_file()
