"""`pcqc diff`: two runs or two files of predictions against each other."""

import json

import pandas as pd

from pcqc.cli import main


def test_two_files_of_predictions_are_paired_case_by_case(tmp_path, capsys):
    names = []
    for name, correct in (("a", [True, True, False]), ("b", [True, False, False])):
        names.append(str(tmp_path / f"{name}.parquet"))
        frame = pd.DataFrame({"case_id": ["x", "y", "z"], "correct": correct})
        frame.to_parquet(names[-1])
    main(["diff", *names, "--json"])
    (row,) = json.loads(capsys.readouterr().out)["accuracy"].values()
    assert (row["only_minuend"], row["only_subtrahend"], row["p"]) == (1, 0, 1.0)
    main(["diff", *names])
    line = capsys.readouterr().out.splitlines()[-2]
    assert line.split()[:6] == ["cases", "3", "66.67", "33.33", "+33.33", "[+0.00,"]
