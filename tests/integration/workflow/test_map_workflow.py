"""The map as a workflow: a job for each block; an interrupted map has only some to make."""

import re

from workplace import Workplace

from credit_lab.jobs import map_block, map_figure
from credit_lab.map.settings import load_map
from pcqc.recipes.manifest import begin, finish

BLOCKS = list(load_map().blocks)


def planned(place: Workplace) -> tuple[list[str], bool]:
    """Blocks that a dry run would train, and whether it would draw the figure."""
    done = place.run(place.workflow("-n", "map"))
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    return re.findall(r"in the cells of (\S+)", output), "Map: tables and figure" in output


def test_what_is_there_is_not_trained_again(tmp_path, monkeypatch):
    place = Workplace(tmp_path / "copy")
    monkeypatch.chdir(place.folder)
    for job in [*map(map_block, BLOCKS), map_figure()]:
        begin(job)
        finish(job, {})
    unmade = BLOCKS[5:]
    for block in unmade:
        map_block(block).manifest.unlink()
    blocks, drawn = planned(place)
    assert (sorted(blocks), drawn) == (sorted(unmade), True)  # the figure reads them
