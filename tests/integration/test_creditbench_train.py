"""Credits by their name train as the methods do that have them; a file's credit gets a row."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers import changed
from safetensors.numpy import load_file
from small_runs import small_study

from analysis.copied_tables import shown
from clinic_env import load
from clinic_env.world import asked_findings
from credit_lab.bench import cli, table, train
from credit_lab.bench.bundle import SCHEMA, State, read_bundle
from credit_lab.bench.methods import credits_of
from credit_lab.bench.record import Sizes, record_run
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_jsonl
from pcqc_study.run_job import run_job
from pcqc_study.study_file import load_study
from turn_credit import CREDITS, Credit

FEW = {"terminal_group": 2, "updates": 2, "runs": ["A"]}
# Method of pcqc -> the same by its credit's name.
PAIRS = {
    "pcqc": {"method": "credited_questions", "question_credit": "pcqc"},
    "executed_local": {"method": "credited_questions", "question_credit": "executed_local"},
    "c3": {"method": "credited_questions", "question_credit": "c3"},
    "expected_answer": {"method": "credited_questions", "question_credit": "expected_answer"},
    "mt_grpo": {"method": "credited_turns", "turn_credit": "mt_grpo"},
    "vineppo": {"method": "credited_turns", "turn_credit": "vineppo"},
}
QUICK = ("pcqc", "c3", "mt_grpo")  # of questions, by consultations that go on, and of turns


def make_study(folder):
    methods = {"pcqc": {**FEW, "question_group": 2}, "terminal_only": FEW}
    methods |= {"executed_local": {**FEW, "question_group": 2}}
    methods |= {"expected_answer": {"imagined_answers": 0}}
    for name, entry in PAIRS.items():
        of_turns = entry["method"] == "credited_turns"
        like = "terminal_only" if of_turns else "pcqc"
        methods[f"{name}_by_name"] = {"title": f"{name} by name", "like": like, **entry}
    methods["vineppo_by_name"]["continuations"] = 3
    methods["c3_by_name"]["continuations"] = 1
    methods["executed_local_by_name"]["supervise"] = "executed"
    return changed(small_study(folder, methods=methods), "rl.cases_per_update", 6)


@pytest.mark.numerical
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PAIRS]
)
def test_a_credit_by_its_name_trains_as_the_method_does(study, name):
    """The formulas add up in another order, so the last digits differ."""
    folders = [run_job(study, "train", n, "A").path for n in (name, f"{name}_by_name")]
    own, by_name = (load_file(path / "checkpoints/000002/model.safetensors") for path in folders)
    start = load_file(run_job(study, "sft").path / "actor/model.safetensors")
    assert max(np.abs(own[key] - start[key]).max() for key in own) > 1e-3
    for key, values in own.items():
        np.testing.assert_allclose(by_name[key], values, atol=1e-5)
    rows = [[row for _, row in read_jsonl(f / "candidate_groups.jsonl")] for f in folders]
    for first, second in zip(*rows, strict=True):
        given = [[c["credit"] for c in row["candidates"]] for row in (first, second)]
        assert given[0] == pytest.approx(given[1], abs=1e-6)


def reads_utilities(group):
    """A credit of turns that looks at what belongs to questions."""
    return [np.full(len(row), np.mean(group.utilities[0])) for row in group.beliefs]


def test_a_credit_that_is_unknown_or_reads_too_much_is_told(study, monkeypatch):
    by_reward = Credit("by_reward", "By reward", "questions", "group", lambda g: [g.rewards])
    monkeypatch.setitem(CREDITS, "by_reward", by_reward)
    by_utility = Credit("by_utility", "By utility", "turns", "group", reads_utilities)
    monkeypatch.setitem(CREDITS, "by_utility", by_utility)
    for entry, message in (
        ({"question_credit": "grpo"}, "no credit of questions is called 'grpo'; known are pcqc"),
        ({"question_credit": "by_reward"}, "reads rewards; for a credit of questions training has"),
        ({"question_credit": "c3"}, "reads what was played on; set `continuations`"),
        ({"turn_credit": "by_utility"}, "reads utilities; for a credit of turns training has"),
        ({"turn_credit": "itpo"}, "cannot be trained here: this credit needs `implicit`"),
    ):
        model = "mt_grpo" if "turn_credit" in entry else "pcqc"
        method = dataclasses.replace(study.method(f"{model}_by_name"), **entry)
        own = changed(study, "methods.own", method)
        with pytest.raises(UserError, match=message):
            run_job(own, "train", "own", "A")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `creditbench train` does, on few cases: its folder, and the rows of two files."""
    folder = tmp_path_factory.mktemp("bench")
    clinic = load_study("clinic")
    clinic = dataclasses.replace(
        clinic,
        clinic=dataclasses.replace(clinic.clinic, training_cases=24, sft_conversations=24),
        rl=dataclasses.replace(clinic.rl, cases_per_update=2),
        runs={"A": 1, "B": 2},
        methods={
            n: dataclasses.replace(m, updates=6) if m.kind == "rl" else m
            for n, m in clinic.methods.items()
        },
    )
    file = folder / "mine.py"
    file.write_text(
        "from turn_credit import credit\n\n\n@credit('Mine', 'questions')\n"
        "def mine(group):\n    return group.read('expected')\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(train, "load_study", lambda name: clinic)
        patch.setattr(train, "CASES", 6)
        patch.setattr(train, "BUDGETS", {"trajectories": 24, "sampled_tokens": 100})
        patch.setattr(table, "PAGE", folder / "README.md")
        table.PAGE.write_text("<!-- creditbench: trained -->\n\n| a |\n|---|\n\n<!-- end -->\n")
        assert cli.main(["train", str(file), "--keep"]) == 0
        yield folder, file
        CREDITS.pop("mine")


@pytest.mark.slow
@pytest.mark.numerical
def test_a_file_s_credit_is_trained_and_its_row_kept(trained, capsys):
    _, file = trained
    *_, row = shown(table.PAGE, cli.OWNER, "trained").splitlines()
    title, updates, *rates, consultations, tokens, _ = row.strip("| ").split(" | ")
    assert (title, updates, consultations) == ("Mine", "6", "48")
    assert all(" ± " in rate for rate in rates)
    assert len(rates) == 2 + len(train.BUDGETS)
    assert 0 < float(tokens) < 1
    # A second call reads the finished runs; the row takes the place of the first.
    assert cli.main(["train", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [row]


def test_accuracy_at_a_cost_lies_between_validations(monkeypatch):
    monkeypatch.setattr(train, "BUDGETS", {"trajectories": 15})
    run = train.Trained(
        {"trajectories": {3: 10, 6: 20}}, {"accuracy": {0: 50.0, 3: 60.0, 6: 80.0}}, ""
    )
    assert run.at("trajectories") == pytest.approx(70)
    monkeypatch.setattr(train, "BUDGETS", {"trajectories": 5})
    assert run.at("trajectories") == pytest.approx(55)


@pytest.mark.slow
@pytest.mark.numerical
def test_a_run_is_recorded_with_its_card(trained):
    folder, file = trained
    study = train.quick_study(train.entry_of(*credits_of(str(file)), str(file)))
    sizes = Sizes(groups=6, cases=2, candidates=4, continued=1, continuations=2)
    bundle = folder / "own.parquet"
    assert "groups, " in record_run(study, ["own"], "A", bundle, sizes)
    rows = pq.read_table(bundle, schema=SCHEMA).to_pylist()
    policies = [row["policy"] for row in rows]
    assert list(dict.fromkeys(policies)) == ["shared_sft", "own_early", "own_late"]
    card = bundle.with_suffix(".md").read_text()
    for name in set(policies):
        assert f"| `{name}` | {policies.count(name)} |" in card
    assert "runs/own/A/" in card
    states = read_bundle(bundle)
    # The published bundle's first case is this one's: both begin at the same seed.
    assert states[0].row["case"] == read_bundle()[0].row["case"]
    assert states[0].row["initial"] == read_bundle()[0].row["initial"]
    world, _ = load()
    played = next(State(row) for row in rows if row["rewards"])
    assert played.draws == 2
    for k, question in enumerate(played.row["candidates"]):
        (finding,) = asked_findings(world, question)
        assert played.row["exact_utilities"][k] > 0
        assert len(played.row["states"][k][0]) == len(played.row["scorer_beliefs"][k][0])
        assert 0 <= finding < 16
