"""`pcqc diff`: what sets two runs apart, and two files of predictions case by case."""

import json
from dataclasses import replace

import pandas as pd
import pytest
import run_folders

import pcqc
from pcqc_base.errors import UserError
from pcqc_study.cli import main
from pcqc_study.diff import diff, told


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Finished runs, in the working directory; a test may add others."""
    study = run_folders.make_study()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("diff"))
        run_folders.write_study(study, ["pcqc", "grpo"], runs="AB")
        yield study


def test_two_runs_of_a_method_differ_in_their_seed(study):
    data = diff("clinic/pcqc/A", "clinic/pcqc/B")
    assert data["differing"]["settings"] == {"seed": (1, 2)}
    assert data["differing"]["modules"] == {}
    assert data["accuracy"]["average"]["gain"] == 0.0
    json.dumps(data, allow_nan=False)
    text = told(data)
    assert text.startswith("A: clinic/pcqc/A, fingerprint ")
    assert "seed       1    2" in text
    assert "Differing source" not in text


def test_a_study_without_results_is_told_how_it_gets_them(study):
    with pytest.raises(UserError, match="no results here yet; `make results STUDY=clinic-full`"):
        diff("clinic-full/pcqc", "clinic/grpo")


def test_what_import_pcqc_offers_is_listed():
    assert {"Run", "compare", "load"} <= {*dir(pcqc)}


def test_two_methods_differ_in_settings_and_source(study):
    """Without a letter a method stands for its first run."""
    data = diff("clinic/pcqc", "clinic/grpo")
    assert data["a"]["name"] == "clinic/pcqc/A"
    assert data["differing"]["settings"]["method.beta"] == (1.0, None)
    assert "pcqc.methods.pcqc" in data["differing"]["modules"]
    assert "Differing source: pcqc.methods.pcqc" in told(data)


def test_a_variation_differs_from_its_method_in_what_was_varied(study):
    weak = replace(study.method("pcqc"), beta=0.5, runs=("A",))
    varied = replace(study, methods={**study.methods, "weak": weak})
    run_folders.write_run(varied, "weak", "A")
    result = diff("clinic/weak", "clinic/pcqc")["differing"]
    assert result["settings"] == {"method.beta": (0.5, 1.0)}
    assert result["modules"] == {}


def test_two_files_of_predictions_are_paired_case_by_case(tmp_path, capsys):
    names = []
    for name, correct in (("a", [True, True, False]), ("b", [True, False, False])):
        names.append(str(tmp_path / f"{name}.parquet"))
        frame = pd.DataFrame({"case_id": ["x", "y", "z"], "correct": correct})
        frame.to_parquet(names[-1])
    main(["diff", *names, "--json"])
    (row,) = json.loads(capsys.readouterr().out)["accuracy"].values()
    assert (row["only_a"], row["only_b"], row["p"]) == (1, 0, 1.0)
    main(["diff", *names])
    line = capsys.readouterr().out.splitlines()[-2]
    assert line.split()[:6] == ["cases", "3", "66.67", "33.33", "+33.33", "[+0.00,"]
