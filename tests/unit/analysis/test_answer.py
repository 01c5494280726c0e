"""What a study, a method or an ablation answers, from evaluations with hand-made outcomes."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import simulated
from built_tables import build, cells
from hand_made import evaluated, finish_job, folder_of

from analysis import conclusion as answer
from analysis.claims import Comparison, claims
from analysis.conclusion import answer_of, conclusion, details
from analysis.statistics.intervals import Effect
from analysis.statistics.verdicts import judge
from analysis.table import MISSING
from analysis.table_formats import plain
from analysis.tables import ablations, peers
from analysis.tables.ablations import parent
from pcqc_base.errors import UserError
from pcqc_base.system.files import write_json, write_jsonl
from pcqc_study.cli import main
from pcqc_study.graph import Jobs, latest
from pcqc_study.job_kinds.whole_study import ANSWER
from pcqc_study.study_file import load_study

# Of four cases of each benchmark; questions of each consultation are as many.
CORRECT = {"shared_sft": 1, "atpo": 2, "atpo_u1": 3, "grpo": 1, "pcqc": 3, "gigpo": 2, "c3": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of which Shared SFT, some methods, an ablation and two peers have one run each."""
    study, folder = load_study(simulated.STUDY), tmp_path_factory.mktemp("made")
    methods = {name: replace(method, runs=("A",)) for name, method in study.methods.items()}
    study = replace(study, methods=methods)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for method, correct in CORRECT.items():
            evaluate(study, method, correct)
    return study, folder


@pytest.fixture
def study(made, tmp_path, monkeypatch):
    """The same study in a folder that a test may change."""
    study, folder = made
    shutil.copytree(folder / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return study


def evaluate(study, method, correct):
    """One run, trained in two updates and right in so many of four cases of each benchmark."""
    rows = [
        {"case_id": str(n), "benchmark": name, "correct": n < correct, "turns": correct}
        for name in study.benchmarks
        for n in range(4)
    ]
    evaluated(study, method, "A", rows)
    if study.method(method).kind == "rl":
        totals = {"trajectories": 100 * correct, "device_seconds": 36.0}
        write_jsonl(folder_of(study, "train", method, "A") / "events.jsonl", events(correct))
        finish_job(study, "train", method, "A", entries={"totals": totals})


def events(correct, read=1000):
    """Two updates that cost 50 consultations for each correct answer, each validated."""
    for update in (1, 2):
        tokens = {"read/actor": read, "sampled/actor": 0, "read/patient": 0}
        spent = {"trajectories": 50 * correct * update, **tokens}
        yield {"kind": "update", "update": update, **spent}
        yield {"kind": "validation", "update": update, "accuracy": correct * update / 8}


def test_a_method_answers_against_shared_sft(study):
    first, accuracy, turns = answer_of(study, "atpo")
    assert first == "ATPO: 50.00% right with 2.00 questions, over 4 benchmarks and 1 run."
    assert accuracy.startswith("ATPO − Shared SFT: +25.00 pp [")
    assert turns.startswith("ATPO − Shared SFT: +1.00 turns [")


def test_what_is_made_on_demand_says_that_it_is_of_the_first_base_model(study):
    several = replace(study, replicates=("twin", "another"))
    first, *_ = answer_of(several, "atpo")
    captions = [table.build(several).caption for table in (ablations, peers)]
    assert all(
        text.endswith(" This is the first of three base models.") for text in (first, *captions)
    )


def test_an_ablation_answers_against_its_parent(study):
    assert parent(study, "atpo_u1")[0] == "atpo"
    _, accuracy, turns = answer_of(study, "atpo_u1")
    assert accuracy.startswith("ATPO, U1 only − ATPO: +25.00 pp [")
    assert turns.startswith("ATPO, U1 only − ATPO: +1.00 turns [")


def test_a_method_that_is_not_evaluated_is_named_with_the_command(study):
    with pytest.raises(
        UserError, match="tips of study 'simulated' is not evaluated yet; run `snake"
    ):
        answer_of(study, "tips")


def test_ablations_stand_below_their_parent_with_what_was_changed(study):
    rows = cells(ablations.build(study))
    assert list(rows) == ["atpo", "atpo_u1"]
    assert rows["atpo_u1"]["changed"].startswith("tree.variance_weight ")
    assert rows["atpo_u1"]["difference"].value == pytest.approx(25)
    assert rows["atpo_u1"]["trajectories"].value == 300
    # Twice 1,000 tokens, read by actor and critic, of 184,320 FLOPs (test_training_flops).
    assert rows["atpo_u1"]["compute"].value == pytest.approx(2 * 2000 * 184_320 / 1e12)


def test_peers_stand_beside_grpo_and_pcqc_at_equal_budgets(study):
    table = peers.build(study)
    rows = cells(table)
    assert list(rows) == ["shared_sft", "grpo", "pcqc", "gigpo", "c3"]
    assert "best_questions" not in rows["grpo"]  # known of the clinic's validations alone
    assert rows["gigpo"]["difference_grpo"].value == pytest.approx(25)
    assert rows["gigpo"]["difference_pcqc"].value == pytest.approx(-25)
    assert rows["grpo"]["difference_grpo"] == MISSING
    # GRPO and C3 end at 100 consultations, two thirds of PCQC's first update.
    assert "had cost 100 consultations" in table.caption
    assert rows["c3"]["accuracy_trajectories"].value == pytest.approx(25)
    assert rows["gigpo"]["accuracy_trajectories"].value == pytest.approx(25)  # after one update
    assert rows["pcqc"]["accuracy_trajectories"].value == pytest.approx((25 + 2 * 37.5) / 3)
    assert rows["pcqc"]["accuracy_compute"].value == pytest.approx(75)
    # All cost the same compute: the more accurate asks more, and none beats another in both.
    assert {key for key, row in rows.items() if row["front"]} == set(rows) - {"shared_sft"}


def test_what_is_dominated_is_not_on_the_front(study):
    folder = folder_of(study, "train", "c3", "A")
    write_jsonl(folder / "events.jsonl", events(CORRECT["c3"], read=1001))
    finish_job(study, "train", "c3", "A", entries={"totals": {}})
    rows = {row.key: row.cells[-1] for row in peers.build(study).rows}
    assert (rows["grpo"], rows["c3"]) == ("front", "")


def test_without_evaluated_peers_and_ablations_there_is_no_table(study):
    for name in ("gigpo", "c3", "atpo_u1"):
        (latest(study, "evaluate", name, "A") / "manifest.json").unlink()
    assert (peers.build(study), ablations.build(study)) == (None, None)
    with pytest.raises(UserError, match="no peer of study 'simulated' is evaluated; run `snake"):
        peers.run(SimpleNamespace(inputs={}), study)


def test_a_conclusion_ranks_all_methods_and_counts_every_claim(collected):
    ranking, how_sure, claimed, asked = conclusion(collected)
    names = list(collected.benchmarks)
    means = {m: collected.average(m, names).mean for m in collected.methods()}
    table = build("question_quality_by_base", collected)
    best = {m: table.cell(f"{m}:1–3", "best").value for m in collected.methods()}
    for sentence, values in ((ranking, means), (asked, best)):
        ordered = sorted(values, key=lambda method: -values[method])
        places = [sentence.index(f" {collected.title(method)} ") for method in ordered]
        assert places == sorted(places)
    assert "GRPO − PCQC +1.04" in how_sure
    of_claims = claimed.replace("none", "0").replace(".", "").split()
    count, *counts = [int(word) for word in of_claims if word.isdigit()]
    assert count == sum(counts) == len(details(collected)) == 5


def test_overview_ranks_all_methods_with_their_gain_over_shared_sft(collected):
    table = build("overview", collected)
    accuracies = [row.cells[2].value for row in table.rows]
    assert accuracies == sorted(accuracies, reverse=True)
    assert {row.key for row in table.rows} == set(collected.methods())
    start = table.cell("shared_sft", "accuracy").value
    for method in collected.methods():
        if method != "shared_sft":
            gain = table.cell(method, "accuracy").value - start
            assert table.cell(method, "gain").value == pytest.approx(gain)
            interval = table.cell(method, "interval")
            assert interval.low < gain < interval.high
    assert len(plain(table).splitlines()) == 1 + len(table.rows)


def test_one_run_of_each_method_is_not_judged(collected):
    single = collected.with_runs({n: collected.runs(n)[:1] for n in collected.methods()})
    how_sure = conclusion(single)[1]
    assert "not judged: one run" in how_sure
    assert how_sure.endswith(" One run of each: the interval covers cases alone.")
    assert "make results STUDY=clinic-full" in conclusion(single)[2]
    verdicts = [c.judged.verdict for claim in claims(single) for c in claim.comparisons if c.single]
    assert verdicts == ["not judged: one run"] * 5


@pytest.mark.parametrize(
    ("others", "difference", "by_base", "end"),
    [
        (
            9,
            11.9,
            {},
            "[+5.45, +18.35] (3 + 3 runs), nominal (unadjusted) p < 0.05 (Holm p over all "
            "comparisons 0.155)",
        ),
        (0, 11.9, {"one": 24.8, "other": -1.0}, "+18.35] (3 + 3 runs), differs by base model"),
        (0, 11.9, {"one": 22.8, "other": 1.0}, "+18.35] (3 + 3 runs), not on each base model"),
        (0, 11.9, {}, "[+5.45, +18.35] (3 + 3 runs), supported"),
        (0, 6.0, {}, "undecided (about 4 runs of each would decide a difference of this size)"),
        (0, 0.1, {}, "undecided (not even 50 runs of each would decide a difference of this size)"),
    ],
)
def test_a_judgement_says_what_its_verdict_rests_on(others, difference, by_base, end):
    parts = {base: Effect(value, 1.5, 2) for base, value in by_base.items()}
    effect = Effect(difference, 1.5, 2, "case and run", parts, runs=3)
    effects = [effect, *[replace(effect, difference=0.0, by_base={})] * others]
    judged = judge(effects, [0.01] * len(effects))[0]
    assert answer._judgement(Comparison("it", effect, "pp", "3 + 3 runs", judged=judged)).endswith(
        end
    )


@pytest.mark.parametrize(
    ("number", "counted"),
    [
        (0, "none differ by base model"),
        (1, "1 differs by base model"),
        (2, "2 differ by base model"),
    ],
)
def test_claims_are_counted_in_words(number, counted):
    assert answer._counted(number, "differs by base model") == counted


def test_the_answer_is_read_from_a_report_of_todays_results_alone(copied, capsys):
    def printed():
        assert main(["answer", str(simulated.STUDY), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    computed, study = printed(), simulated.load_study(simulated.STUDY)
    assert computed["methods"]
    report = Jobs(study).job("report").path
    write_json(report / ANSWER, {**computed, "table": "", "sentences": ["As reported."]})
    assert printed() == computed  # the report is not finished
    finish_job(study, "report")
    assert printed() == {**computed, "sentences": ["As reported."]}
    (report / ANSWER).write_text("{}")
    assert main(["answer", str(simulated.STUDY)]) == 2  # altered since
    shutil.rmtree(report)
    assert printed() == computed
