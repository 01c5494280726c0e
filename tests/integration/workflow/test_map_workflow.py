"""The map as a workflow: a job for each cell, of which an interrupted map has only some to make."""

import re

from workplace import Workplace

from credit_lab.jobs import map_cell, map_figure
from credit_lab.map.settings import load_map
from pcqc.results.manifest import begin, finish

CELLS = list(load_map().cells)


def planned(place: Workplace) -> tuple[list[str], bool]:
    """Cells that a dry run would train, and whether it would draw the figure."""
    done = place.run(place.workflow("-n", "map"))
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    return re.findall(r"in the cell (\S+)", said), "Map: table and figure" in said


def test_what_is_there_is_not_trained_again(tmp_path, monkeypatch):
    place = Workplace(tmp_path / "copy")
    monkeypatch.chdir(place.folder)
    for job in [*map(map_cell, CELLS), map_figure(CELLS)]:
        begin(job)
        finish(job, {})
    unmade = CELLS[5:]
    for cell in unmade:
        map_cell(cell).manifest.unlink()
    cells, drawn = planned(place)
    assert (sorted(cells), drawn) == (sorted(unmade), True)  # the figure reads them
