"""A study that is restored from its archive in an empty clone is finished there."""

import json
import sqlite3
from contextlib import closing

import pytest
from digests import digests
from kills import unstarted
from workplace import RUNS, STUDY, complaint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def restored(mini, tmp_path_factory):
    """A clone in which the archive of the miniature study was restored, and nothing else made."""
    folder = tmp_path_factory.mktemp("restored")
    copy = mini.copied(folder / "copy")
    archived = copy.run(copy.command("archive", STUDY))
    assert archived.returncode == 0, archived.stderr[-3000:]
    place = unstarted(mini, folder / "clone")
    source = copy.folder / "results" / "archive"
    done = place.run(place.command("restore", STUDY, "--from", str(source)))
    assert done.returncode == 0, done.stderr[-3000:]
    return place


def test_it_is_done_and_answers(mini, restored):
    status = json.loads(restored.run(restored.command("status", STUDY, "--json")).stdout)
    assert status["unfinished"] == []
    assert status["archived"] > len(RUNS)
    assert status["report_current"]
    assert restored.planned() == []
    explained = restored.run(restored.command("explain", STUDY, "pcqc", "A")).stdout
    assert "nothing would run again" in explained
    sides = (f"{STUDY}/pcqc/A", f"{STUDY}/grpo/A")
    again, original = (p.run(p.command("diff", *sides)).stdout for p in (restored, mini))
    assert again == original != ""
    with closing(sqlite3.connect(restored.folder / "results" / "mlflow.db")) as store:
        letters = store.execute("SELECT count(*) FROM tags WHERE key = 'run'").fetchone()
    assert letters == (sum(map(len, RUNS.values())),)


def test_its_tables_and_its_figures_are_those_of_the_study(mini, restored):
    for name in ("tables", "figures"):
        drawn, original = (digests(p.results / "report/latest" / name) for p in (restored, mini))
        assert drawn == original != {}
    collected, original = (digests(p.results / "collected/latest") for p in (restored, mini))
    for name in ("predictions.parquet", "updates.parquet", "validations.parquet"):
        assert collected[name] == original[name]


def test_what_the_archive_left_out_is_named_and_a_method_is_made_again_by_a_word(mini, restored):
    """Its numbers are compared with those of the archive."""
    line = complaint(restored.run(restored.command("consult", STUDY, "pcqc", "A")))
    assert "is not in the archive of the study; `pcqc train clinic-mini pcqc A` makes it" in line
    restored.make("grpo")
    for folder in ("models/base/latest", "models/sft/latest", "runs/grpo/B/latest"):
        again, original = (
            digests(place.results / folder, "*/model.safetensors", "checkpoints/*/*.safetensors")
            for place in (restored, mini)
        )
        assert again == original != {}
    assert not (restored.results / "runs/pcqc/A/latest/checkpoints").exists()
    assert restored.planned() == []
    consulted = restored.run(restored.command("consult", STUDY, "grpo", "A"))
    assert consulted.returncode == 0, consulted.stderr[-3000:]
