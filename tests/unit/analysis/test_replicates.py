"""Claims are judged on a study and on its replicates, which have a base model of their own."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml
from built_tables import build

from analysis import figures, report, tables
from analysis.budgets import COSTS
from analysis.claims import compared
from analysis.figures import accuracy_inquiry
from analysis.tables import claims as table
from analysis.tables.layout import number_of_runs
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study
from pcqc_study.study_file.replicates import replicates
from pcqc_study.study_file.vary import vary


@pytest.fixture
def second(collected):
    """Another base model, on which PCQC's doctors always fail."""
    worse = collected.predictions.copy()
    worse.loc[worse["method"] == "pcqc", "correct"] = False
    return dataclasses.replace(collected, predictions=worse)


@pytest.fixture
def both(collected, second):
    """The study with its replicate."""
    study = dataclasses.replace(collected.study, replicates=("twin",))
    return dataclasses.replace(collected, study=study, others=(second,))


def test_a_difference_is_the_mean_over_base_models(collected, second, both):
    everywhere = list(collected.benchmarks)
    first, other, pooled = (
        compared(c, "pcqc", "grpo", everywhere, "accuracy") for c in (collected, second, both)
    )
    parts = [first.effect.difference, other.effect.difference]
    assert abs(parts[0] - parts[1]) > 20
    assert pooled.effect.difference == pytest.approx(np.mean(parts))
    assert [each.difference for each in pooled.effect.by_base.values()] == pytest.approx(parts)
    assert not pooled.single


def test_base_models_may_differ_in_their_run_letters(collected, second):
    both = dataclasses.replace(collected, others=(second.with_runs({"pcqc": ("B", "C")}),))
    sample = both.sample("pcqc", ["clinic_dev"])
    assert sample.runs == ("A", "B", "C", "B", "C")
    assert sample.benchmarks[0][:3].any()
    assert not sample.benchmarks[0][3:].any()
    effect = compared(both, "pcqc", "grpo", ["clinic_dev"], "accuracy").effect
    alone = compared(collected, "pcqc", "grpo", ["clinic_dev"], "accuracy").effect
    on_first = effect.by_base["base model 1"]
    assert (on_first.difference, on_first.low) == pytest.approx((alone.difference, alone.low))


def test_the_table_says_what_each_base_model_gives(collected, both):
    shown = table.build(both)
    assert "benchmarks and runs on two base models. " in shown.caption
    start = "On base models 1 and 2, in this order, each with its own 95% interval: PCQC − GRPO "
    effect = compared(collected, "pcqc", "grpo", list(collected.benchmarks), "accuracy").effect
    first = f"{effect.difference:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}], ".replace("-", "−")
    assert shown.notes[-1].startswith(start + first)
    assert not any("in this order" in note for note in table.build(collected).notes)


def test_three_base_models_count_alike_and_each_has_its_estimate(collected, second):
    """On the third nobody but PCQC is ever right."""
    frame = collected.predictions
    best = frame.assign(correct=frame["method"] == "pcqc")
    three = dataclasses.replace(
        collected, others=(second, dataclasses.replace(collected, predictions=best))
    )
    effect = compared(three, "pcqc", "grpo", ["clinic_dev"], "accuracy").effect
    right = {m: collected.average(m, ["clinic_dev"]).mean for m in ("pcqc", "grpo")}
    parts = [right["pcqc"] - right["grpo"], -right["grpo"], 100]
    assert [each.difference for each in effect.by_base.values()] == pytest.approx(parts)
    assert effect.difference == pytest.approx(sum(parts) / 3)
    pooled = three.pooled()
    assert pooled.average("pcqc", ["clinic_dev"]).mean == pytest.approx((right["pcqc"] + 100) / 3)
    assert (
        "mean ± SD over nine runs, three on each of three base models."
        in tables.build("main_accuracy", three).caption
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((3,), "three runs"),
        ((5, 5, 5), "15 runs, five on each of three base models"),
        ((3, 2), "five runs on two base models"),
        ((1,), "one run"),
    ],
)
def test_runs_are_counted_on_each_base_model(counts, words):
    assert number_of_runs(counts) == words


@pytest.mark.parametrize(
    ("captioned", "own"),
    [
        (lambda study: tables.build("main_accuracy", study).caption, 0),
        (lambda study: tables.build("configuration", study).caption, 1),
        (lambda study: figures.caption("learning_curves", study), 0),
        (lambda study: figures.caption("method_overview", study), 0),
    ],
)
def test_what_is_of_the_first_base_model_says_so(collected, both, captioned, own):
    counts = [
        captioned(study).count("This is the first of two base models.")
        for study in (collected, both)
    ]
    assert counts == [0, own]


def test_runs_under_all_base_models_are_pooled(collected, both):
    """PCQC always fails on the second: half of what it has on the first, and runs far apart."""
    alone, pooled = (study.average("pcqc", ["clinic_dev"]) for study in (collected, both.pooled()))
    assert pooled.mean == pytest.approx(alone.mean / 2)
    assert both.pooled().runs("pcqc") == ("A1", "B1", "C1", "A2", "B2", "C2")
    assert collected.pooled() is collected
    table = tables.build("main_accuracy", both)
    assert "mean ± SD over six runs, three on each of two base models." in table.caption
    assert "Shared SFT: one checkpoint per base model, mean ± SD over these." in table.caption
    assert table.cell("pcqc", "clinic_dev").value == pytest.approx(pooled.mean)
    figure = figures.caption("accuracy_inquiry", both)
    assert (
        "means over runs on two base models, bars one SD over the runs of a base model (" in figure
    )


def test_bars_are_of_the_runs_of_a_base_model(collected, both):
    """They are no wider for base models that lie far apart."""
    alone, pooled = (
        accuracy_inquiry._within_bases(study, "grpo", "clinic_dev", "accuracy")
        for study in (collected, both.pooled())
    )
    assert pooled.sd == pytest.approx(alone.sd)
    failing = accuracy_inquiry._within_bases(both.pooled(), "pcqc", "clinic_dev", "accuracy")
    own = collected.average("pcqc", ["clinic_dev"]).sd
    assert failing.sd == pytest.approx(own / 2**0.5)  # on the second PCQC has no deviation


def test_methods_by_base_model_and_benchmark(collected, second, both):
    table = build("overview_by_base", both)
    for number, base in enumerate((collected, second), 1):
        mean = base.average("pcqc", ["clinic_wide"]).mean
        assert table.cell(f"pcqc:{number}", "clinic_wide").value == pytest.approx(mean)
    assert len(table.rows) == 2 * len(collected.methods())


def test_the_report_s_conclusion_says_which_base_models_it_is_of(collected, both, monkeypatch):
    monkeypatch.setattr("analysis.report.sections.fillable_parts", lambda study: [])
    alone, text = (report.build(study, Path()) for study in (collected, both))
    for sentence in (
        "averaged over 4 benchmarks on two base models.</p>",
        "A table of the first base model has those of the others folded below it.",
        "(one on each of two base models). There are 36 runs of reinforcement learning.",
    ):
        assert sentence in text
    # It names the study that has several, and is of one itself.
    longer = "<p>Longer runs on three base models decide more:"
    assert longer in alone
    assert "base models" not in alone.replace(longer, "")


def write(folder, name, **settings):
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"like": "clinic-mini", **settings}))
    return str(path)


def test_a_replicate_differs_in_base_model_and_letters_alone(tmp_path):
    own = write(tmp_path, "twin", title="Twin", scratch_model={"seed": 1})
    letters = {"pcqc": {"runs": ["A"]}}
    study = load_study(write(tmp_path, "first", replicates=[own], methods=letters))
    (twin,) = replicates(study)
    assert (twin.name, twin.scratch_model.seed) == ("twin", 1)
    assert (twin.replicates, twin.clinic) == ((), study.clinic)
    assert twin.method("pcqc").runs == ("A", "B")


def test_a_variation_of_the_study_alone_has_no_runs_in_its_replicate(tmp_path):
    twin = write(tmp_path, "twin", scratch_model={"seed": 1})
    own = write(tmp_path, "first", replicates=[twin])
    weak, _ = vary(own, "pcqc", ["beta=0.5"])
    vary(twin, "pcqc", ["beta=0.25"], name="weaker")
    study = load_study(own)
    (replicate,) = replicates(study)
    assert study.method(weak).runs == ("A",)
    assert replicate.method(weak).runs == ()
    assert replicate.method("weaker").runs == ("A",)
    assert (
        Jobs(replicate).job("collect").fingerprint
        == Jobs(load_study(twin)).job("collect").fingerprint
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has the base model of 'first'"),
        (
            {"scratch_model": {"seed": 1, "width": 64}},
            "scratch_model differ; make it `like: first`",
        ),
        ({"scratch_model": {"seed": 1}, "evaluation_seed": 5}, "evaluation_seed differ"),
    ],
)
def test_what_is_no_replicate_is_refused(tmp_path, settings, message):
    study = load_study(write(tmp_path, "first", replicates=[write(tmp_path, "twin", **settings)]))
    with pytest.raises(UserError, match=message):
        replicates(study)


def test_every_shipped_replicate_is_one():
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml")):
        study = load_study(path)
        assert len(replicates(study)) == len(study.replicates)


def test_pcqc_over_grpo_by_benchmark_and_base_model(collected, second, both):
    """Each cell is the comparison of the runs that it names, and no other."""
    table = build("over_grpo", both)
    on = {"all": both, "base_model_1": collected, "base_model_2": second}
    rows = {"accuracy": list(collected.benchmarks), "clinic_wide": ["clinic_wide"]}
    for column, runs in on.items():
        for row, benchmarks in rows.items():
            effect = compared(runs, "pcqc", "grpo", benchmarks, "accuracy").effect
            cell = table.cell(row, column)
            assert (cell.value, cell.low) == pytest.approx((effect.difference, effect.low))
        fewer = compared(runs, "pcqc", "grpo", rows["accuracy"], "turns").effect
        assert table.cell("turns", column).value == pytest.approx(fewer.difference)
    assert [c.key for c in build("over_grpo", collected).columns] == ["what", "all"]
    spent = {row.key for row in table.rows} & {*COSTS}
    assert spent == {"trajectories", "sampled_tokens", "compute"}
    budget = table.cell("compute", "what")
    assert budget.startswith("Right, Clinic-Dev at 0.")
    assert budget.endswith(" TFLOPs (pp)")


def test_further_claims_are_of_the_methods_that_the_paper_compares(collected, second, both):
    table = build("further_claims", both)
    asks = compared(both, "pcqc", "executed_local", collected.primary, "turns").effect
    assert table.cell("turns_executed_local", "here").value == pytest.approx(asks.difference)
    more = compared(second, "shared_sft", "grpo", list(second.benchmarks), "turns").effect
    assert table.cell("turns_start", "base_model_2").value == pytest.approx(more.difference)
    elsewhere = compared(both, "pcqc", "grpo", ["clinic_elsewhere"], "accuracy").effect
    assert table.cell("independent", "here").low == pytest.approx(elsewhere.low)
    # GRPO's 40 updates have 8 consultations of 24 cases, PCQC's 60 have 4.
    assert table.cell("consultations", "here").value == 24 * (40 * 8 - 60 * 4)
    without = {"executed_local": (), "terminal_only": ()}
    fewer = {row.key for row in build("further_claims", collected.with_runs(without)).rows}
    gone = {row.key for row in table.rows} - fewer
    assert gone == {"turns_executed_local", "group_size", "executed_local"}


def test_an_equal_number_of_consultations_is_a_setting_and_no_finding(collected, monkeypatch):
    """As where every run has one checkpoint, after as many updates of as many consultations."""
    monkeypatch.setattr(type(collected), "spent", lambda *_: 1152.0)
    keys = [row.key for row in build("further_claims", collected).rows]
    assert "consultations" not in keys
    assert "tokens" in keys


def test_at_equal_cost_pcqc_over_grpo_is_that_of_the_claims_at_budgets(both):
    table, judged = build("over_grpo", both), build("claims_at_budgets", both)
    for cost in COSTS:
        estimate = judged.cell(f"accuracy:0:{cost}", "estimate").value
        assert table.cell(cost, "all").value == pytest.approx(estimate)
