"""`pcqc consult`, scripted: what is typed goes in, what a person reads comes out."""

import contextlib
import dataclasses
import io
import shutil

import numpy as np
import pytest
from small_runs import small_study

from pcqc.cases.case import read_cases
from pcqc.cases.prompts import UNANSWERABLE
from pcqc_base.errors import UserError
from pcqc_study.consult import consult
from pcqc_study.graph import Jobs
from pcqc_study.run_job import run_job

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def doctor(prepared, tmp_path_factory):
    """A study with a doctor to consult: Shared SFT, its checkpoint chosen."""
    folder = tmp_path_factory.mktemp("doctor")
    shutil.copytree(prepared / "results", folder / "results", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = small_study(folder, continuation=None)
        run_job(study, "select", "shared_sft", "A")
        yield study


@pytest.fixture(scope="module")
def asking(doctor):
    """A case and a seed on which the doctor asks at least one question, watched."""
    for case in read_cases(Jobs(doctor).cases("clinic_dev").latest):
        for seed in range(10):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                consult(doctor, "shared_sft", "A", case=case.case_id, seed=seed)
            if "\nPatient: " in printed.getvalue():
                return case, seed, printed.getvalue()
    pytest.fail("no consultation has a question")


def test_a_watched_consultation_has_case_turns_and_outcome(asking):
    case, _, printed = asking
    lines = printed.splitlines()
    assert lines[0] == f"Shared SFT, run A, on {case.case_id}: {case.initial}"
    assert [f"  {k}. {v}" for k, v in case.options.items()] == lines[2 : 2 + len(case.options)]
    assert any(line.startswith("Doctor: ") for line in lines)
    assert f"The correct option is {case.answer}, {case.options[case.answer]}." in lines[-1]


def test_a_person_is_told_the_facts_and_heard(doctor, asking, monkeypatch, capsys):
    case, seed, watched = asking
    monkeypatch.setattr("sys.stdin", io.StringIO("no idea\n" * 10))
    consult(doctor, "shared_sft", "A", case=case.case_id, seed=seed, be_patient=True)
    printed = capsys.readouterr().out
    assert all(f"  {fact}\n" in printed for fact in case.facts)
    assert UNANSWERABLE in printed
    assert "\nPatient: " not in printed
    question = next(line for line in watched.splitlines() if line.startswith("Doctor: "))
    assert f"{question}\nYou: " in printed
    assert "The correct option is" in printed.splitlines()[-1]


def test_a_person_may_leave(doctor, asking, monkeypatch, capsys):
    case, seed, _ = asking
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    consult(doctor, "shared_sft", "A", case=case.case_id, seed=seed, be_patient=True)
    assert capsys.readouterr().out.endswith("You: \nYou have left the consultation.\n")


def test_candidates_stand_with_their_utilities_the_executed_one_marked(doctor, asking, capsys):
    case, seed, watched = asking
    consult(doctor, "shared_sft", "A", case=case.case_id, seed=seed, candidates=3)
    printed = capsys.readouterr().out
    rows = printed.split("utility    gain  credit\n")[1].splitlines()[:3]
    assert sum(row.startswith("  * ") for row in rows) == 1
    utilities = [float(row[4:].split()[0]) for row in rows]
    assert utilities == sorted(utilities, reverse=True)
    spread = float(printed.split("with a spread of ")[1].split(":")[0])
    assert spread == pytest.approx(np.std(utilities, ddof=1), abs=1e-3)
    assert all(0 <= utility <= 1 for utility in utilities)
    # The other candidates change nothing of the consultation.
    spoken = [line for line in printed.splitlines() if line.startswith(("Doctor: ", "Patient: "))]
    assert spoken == [line for line in watched.splitlines() if line in spoken]


def test_what_a_case_says_cannot_steer_the_terminal(doctor, asking, monkeypatch, capsys):
    """Escape sequences set titles and clear screens; a mark of direction reorders what is read."""
    case, seed, _ = asking
    hostile = dataclasses.replace(
        case,
        initial=f"{case.initial} \x1b]0;taken\x07\x1b[2J",
        options={label: f"{text}\u202e\x9b2J" for label, text in case.options.items()},
        facts=(f"{case.facts[0]}\rmore", *case.facts[1:]),
    )
    monkeypatch.setattr("pcqc_study.consult.read_cases", lambda path: [hostile])
    monkeypatch.setattr("sys.stdin", io.StringIO("no idea\n" * 10))
    consult(doctor, "shared_sft", "A", seed=seed, be_patient=True)
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    assert f"on {case.case_id}: {case.initial} \\x1b]0;taken\\x07\\x1b[2J\n" in printed
    assert f"{case.facts[0]}\\rmore\n" in printed


def test_the_case_is_read_while_models_load(doctor, monkeypatch, capsys):
    def load(*_):
        raise EOFError

    monkeypatch.setattr("pcqc_study.consult._roles", load)
    with pytest.raises(EOFError):
        consult(doctor, "shared_sft", "A")
    assert capsys.readouterr().out.startswith("Shared SFT, run A, on clinic_dev-")


def test_weights_that_are_not_here_are_named_before_the_case(doctor, capsys):
    actor = Jobs(doctor).job("sft").path / "actor" / "manifest.json"
    actor.rename(actor.with_name("away"))
    try:
        with pytest.raises(UserError, match=r"actor/manifest\.json"):
            consult(doctor, "shared_sft", "A")
    finally:
        actor.with_name("away").rename(actor)
    assert not capsys.readouterr().out


def test_an_unknown_case_or_benchmark_is_named(doctor):
    with pytest.raises(UserError, match="no case 'clinic_dev-9' in clinic_dev; did you mean"):
        consult(doctor, "shared_sft", "A", case="clinic_dev-9")
    with pytest.raises(UserError, match="no benchmark 'clinic_def'; did you mean 'clinic_dev'"):
        consult(doctor, "shared_sft", "A", benchmark="clinic_def")
