"""The published models' Shared SFT is as good a doctor as the card says (models/README.md)."""

import re

import pytest
from model_card import MODELS, percentages
from workplace import ROOT, Workplace

from analysis.tables.thoughts import thoughts_of
from clinic_env.world import World
from pcqc.cases.case import read_cases
from pcqc.models.pretrained import WEIGHTS
from pcqc_base.system.files import read_json, read_jsonl, sha256_file

THOUGHTS, RIGHT = (
    "Shared SFT's thoughts consistent with the exact state",
    "Shared SFT right, Clinic-Dev",
)


@pytest.fixture(params=MODELS)
def evaluated(request, tmp_path):
    """The study `clinic` from one of the base models, of which Shared SFT is made and evaluated."""
    place = Workplace(tmp_path / "place")
    place.results = place.folder / "results" / "clinic"
    folder = ROOT / "models" / request.param / "base"
    file = place.folder / "config/studies/clinic.yaml"
    named = r"(source: )models/clinic-1/base(\n +sha256: )\w+"
    digest = sha256_file(folder / WEIGHTS)
    file.write_text(re.sub(named, rf"\g<1>{folder}\g<2>{digest}", file.read_text()))
    done = place.run(place.workflow("shared_sft", study="clinic"))
    assert done.returncode == 0, done.stderr[-3000:]
    return request.param, place.results


def test_its_diagnoses_and_its_thoughts(evaluated):
    name, results = evaluated
    for role, published in (("actor", "sft"), ("patient", "patient")):
        made = results / "models" / "sft" / "latest" / role / WEIGHTS
        assert sha256_file(made) == sha256_file(ROOT / "models" / name / published / WEIGHTS)
    clinic = results / "data" / "clinic"
    world = World.from_json(read_json(clinic / "world" / "latest" / "world.json"))
    cases = {
        case.case_id: case
        for case in read_cases(results / "data" / "clinic_dev" / "latest" / "clinic_dev.jsonl")
    }
    path = results / "evaluation" / "shared_sft" / "A" / "latest" / "clinic_dev.jsonl"
    dialogues = [row for _, row in read_jsonl(path)]
    thoughts = [t for row in dialogues for t in thoughts_of(world, cases[row["case_id"]], row)]
    as_taught = 100 * sum(thought.exact for thought in thoughts) / len(thoughts)
    right = 100 * sum(row["correct"] for row in dialogues) / len(dialogues)
    assert [as_taught] == pytest.approx(percentages(THOUGHTS, name), abs=0.5)
    assert [right] == pytest.approx(percentages(RIGHT, name), abs=2)
    assert as_taught >= 95
    assert right >= 55
