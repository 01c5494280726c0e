"""The map as a workflow: a job for each cell, of which an interrupted map has only some to make."""

import re

from workplace import Workplace

from credit_lab.map.settings import load_map

CELLS = list(load_map().cells)


def planned(place: Workplace) -> tuple[list[str], bool]:
    """Cells that a dry run would train, and whether it would draw the figure."""
    done = place.run(place.workflow("-n", "map"))
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    return re.findall(r"in the cell (\S+)", said), "Map: table and figure" in said


def test_what_is_there_is_not_trained_again(tmp_path):
    place = Workplace(tmp_path / "copy")
    cells, drawn = planned(place)
    assert drawn
    assert sorted(cells) == sorted(CELLS)
    folder = place.folder / "results" / "map"
    folder.mkdir(parents=True)
    for name in [*(f"{cell}.json" for cell in CELLS), "map.csv", "map.md", "map.svg", "map.png"]:
        (folder / name).write_text("{}")
    assert planned(place) == ([], False)
    (folder / f"{CELLS[5]}.json").unlink()
    assert planned(place) == ([CELLS[5]], True)
