"""Tables against numbers worked out by hand from the same predictions."""

from dataclasses import replace

import pandas as pd
import pytest
from built_tables import build

from analysis.beside_the_paper import differences
from analysis.metrics import METRICS, Metric
from analysis.published import published
from analysis.tables import information_access, overview


@pytest.mark.parametrize("name", ["main_accuracy", "inquiry_turns", "training_cost", "paired"])
def test_a_method_without_runs_is_said_not_to_be_run(collected, name):
    table = build(name, collected.with_runs({"atpo": ()}))
    rows = [row for row in table.rows if "atpo" in row.key]
    assert rows
    for row in rows:
        assert "(not run)" in " ".join(row.cells)
        assert set(row.cells[2:]) == {"—"}
    compared = [r for r in differences(table, published().tables[name]).rows if "atpo" in r.key]
    assert {row.cells[4] for row in compared} <= {"—"}


def test_tables_at_a_fixed_update_show_the_last_one_that_all_runs_share(collected):
    """Runs of PCQC at updates 2 and 4, of Same-State-Q1 at 4 alone; at 4 nobody is right."""
    chosen = collected.predictions
    further = [
        chosen[chosen.method == method].assign(update=update, correct=update == 2)
        for method, update in (("pcqc", 2), ("pcqc", 4), ("same_state_q1", 4))
    ]
    fixed = replace(collected, further=pd.concat(further))
    for name, key in (("pcqc_runs", "mean_of_all"), ("same_state_q1", "mean")):
        table = build(name, fixed)
        row = next(row for row in table.rows if row.key == key)
        assert row.cells[1].value == 0
        assert "at update 4" in table.caption
        assert "selected" in build(name, collected).caption
    none = replace(fixed, further=fixed.further[fixed.further["run"] == "A"])
    assert "selected" in build("pcqc_runs", none).caption


def test_tables_of_selected_checkpoints_have_fixed_updates_below(collected):
    """PCQC at update 4, where everybody is right after 4 questions; GRPO has no such update."""
    chosen = collected.predictions
    further = chosen[chosen.method == "pcqc"].assign(update=4, correct=True, turns=4)
    fixed = replace(collected, further=further)
    main, turns = build("main_accuracy", fixed), build("inquiry_turns", fixed)
    assert [row.key for row in main.rows][-1] == "pcqc:fixed"
    assert main.cell("pcqc:fixed", "average").value == 100
    assert turns.cell("pcqc:fixed", "average").value == 4
    assert main.cell("pcqc", "average") == build("main_accuracy", collected).cell("pcqc", "average")
    further = "Rows that say so are at a fixed update instead (PCQC 4)."
    chosen_on = "Each run is at its checkpoint with the highest accuracy on Clinic-Dev."
    assert f"{chosen_on} {further}" in main.caption
    selected = build("main_accuracy", collected).caption
    assert chosen_on in selected
    assert "instead" not in selected
    paired = build("paired", fixed)
    right = chosen[(chosen.method == "grpo") & (chosen.run == "A")]
    right = right[right.benchmark == "clinic_dev"]["correct"].mean()
    gain = paired.cell("clinic_dev:pcqc-grpo:fixed", "gain").value
    assert gain == pytest.approx(100 * (1 - right))
    assert main.rows[-1].cells[0] == "PCQC at update 4"
    without = build("question_supervision", fixed.with_runs({"executed_local": ()}))
    assert [row.key for row in without.rows][-1] == "pcqc:fixed"


def test_methods_with_unequal_numbers_of_runs_are_told_apart(collected):
    """PCQC has one run less than GRPO, ATPO a single one."""
    fewer = collected.with_runs({"pcqc": ("A", "B"), "atpo": ("A",)})
    assert (
        "Cells are mean ± SD over runs: three of GRPO; two of PCQC. ATPO: one run. Shared SFT: one "
        "checkpoint." in build("main_accuracy", fewer).caption
    )


def test_training_cost_and_tokens_take_each_method_at_an_update_of_its_own(collected):
    """GRPO at 5 and PCQC at 7, where nobody asks or says much; ATPO at its selected checkpoint."""
    chosen = collected.predictions
    further = [
        chosen[chosen.method == method].assign(update=update, turns=update, actor_tokens=update)
        for method, update in (("grpo", 5), ("pcqc", 3), ("pcqc", 7))
    ]
    fixed = replace(collected, further=pd.concat(further))
    table, before = (build("training_cost", c) for c in (fixed, collected))
    size = collected.study.rl.cases_per_update
    for method, update in (("grpo", 5), ("pcqc", 7)):
        group = collected.study.method(method).terminal_group
        assert table.cell(method, "turns").value == update
        assert table.cell(method, "trajectories").value == update * size * group
    for column in ("trajectories", "turns"):
        assert table.cell("atpo", column).value == before.cell("atpo", column).value
    assert "G_T = 4, fixed update 7" in table.caption
    assert "consultations, selected update 20" in table.caption
    length = build("generation_length", fixed)
    assert [length.cell("clinic_wide", m).value for m in ("grpo", "pcqc")] == [5, 7]
    assert "run A at its fixed update 5" in length.caption
    assert "PCQC at update 7." in length.caption
    assert "selected update 40" in build("generation_length", collected).caption


def test_configuration_is_of_the_methods_that_were_run(collected):
    with_runs = {row.key for row in build("configuration", collected).rows}
    without_runs = {
        row.key for row in build("configuration", collected.with_runs({"atpo": ()})).rows
    }
    assert with_runs - without_runs == {"atpo_tree", "atpo_optimizer"}


def test_configuration_says_how_many_updates_were_made_where_runs_may_level_off(collected):
    """PCQC's first two runs levelled off at updates 10 and 30, its third made all 60."""
    rule = replace(collected.study, rl=replace(collected.study.rl, level_after=3))
    records = dict(collected.records)
    for run, made in (("A", 10), ("B", 30)):
        training = {"updates": made, "ended": "levelled off"}
        records["pcqc", run] = {**records["pcqc", run], "training": training}
    without, levelled = (
        build("configuration", one).cell("updates", "setting")
        for one in (collected, replace(collected, study=rule, records=records))
    )
    assert "PCQC 60, " in without
    assert "PCQC up to 60 (made 10–60, 2 of 3 runs levelled off), " in levelled
    assert "GRPO up to 40 (made 40, 0 of 3 runs levelled off), " in levelled


def test_configuration_gives_atpo_its_own_optimization(collected):
    table = build("configuration", collected)
    others, atpo = (table.cell(row, "setting") for row in ("optimizer", "atpo_optimizer"))
    assert others.endswith("KL coefficient 0.05")
    assert atpo.startswith(
        "learning rate 0.0001 of the actor and 0.001 of the critic, clip 0.2 below and 0.28 above"
    )
    assert "advantage return" in atpo


def test_configuration_gives_each_method_the_rate_that_it_has(collected):
    rates = {"grpo": 0.1, "pcqc": 0.2}
    methods = {
        name: replace(m, rl={"learning_rate": rates.get(name, 0.3)})
        for name, m in collected.study.methods.items()
    }
    tree = replace(methods["atpo"].tree, actor_learning_rate=None)
    methods["atpo"] = replace(methods["atpo"], tree=tree)
    study = replace(collected.study, methods=methods)
    table = build("configuration", replace(collected, study=study))
    assert table.cell("optimizer", "setting").startswith(
        "AdamW, learning rate GRPO 0.1, PCQC 0.2, Terminal-only 0.3, Executed-local 0.3, "
        "Same-State-Q1 0.3, weight decay"
    )
    assert table.cell("atpo_optimizer", "setting").startswith("learning rate 0.3 of the actor")
    alike = {name: replace(m, rl={"learning_rate": 0.3}) for name, m in methods.items()}
    same = build("configuration", replace(collected, study=replace(study, methods=alike)))
    assert same.cell("optimizer", "setting").startswith("AdamW, learning rate 0.3, weight decay")


def test_claims_without_atpo_say_so(collected):
    table = build("claims", collected.with_runs({"atpo": ()}))
    assert table.cell("accuracy:missing", "comparison") == "Not run: ATPO."
    assert table.cell("accuracy:0", "comparison") == "PCQC − GRPO"


def test_claims_say_what_selected_the_checkpoints_and_how_many_verdicts_hold_together(collected):
    """Two comparisons each of accuracy and of utility, one each of the other three claims."""
    table = build("claims", collected)
    assert len(table.rows) == 7
    assert "corrected for all 7 comparisons" in table.notes[0]
    assert "the highest accuracy on Clinic-Dev, one of the benchmarks" in table.caption
    single = collected.with_runs(dict.fromkeys(collected.methods(), ("A",)))
    assert " Not judged: each method has one run" in build("claims", single).notes[2]
    without = build("claims", collected.with_runs({"atpo": ()}))
    assert "for all 6 comparisons" in without.notes[0]


def test_the_verdicts_of_a_table_are_explained_and_no_others(collected):
    """PCQC is as good as GRPO within chance, and asks fewer questions."""
    table = build("claims", collected)
    explained = {w.partition(":")[0] for w in table.notes[2].split(". ")[1:] if ":" in w}
    assert explained == {row.cells[8].capitalize() for row in table.rows}
    assert explained == {"Supported", "Undecided"}


def test_turns_and_tokens_are_means_over_consultations(collected):
    frame = collected.predictions
    rows = frame[(frame.method == "grpo") & (frame.benchmark == "clinic_wide")]
    turns = rows.groupby("run")["turns"].mean()
    shown = build("inquiry_turns", collected).cell("grpo", "clinic_wide")
    assert shown.value == pytest.approx(turns.mean())
    length = build("generation_length", collected)
    before, after = (length.cell("clinic_wide", m).value for m in ("grpo", "pcqc"))
    tokens = rows.groupby("run")["actor_tokens"].mean()
    assert before == pytest.approx(tokens["A"])
    local = frame[(frame.method == "executed_local") & (frame.benchmark == "clinic_wide")]
    assert f"{local['actor_tokens'].mean():.2f} (Clinic-Wide)" in length.notes[0]
    assert length.cell("clinic_wide", "reduction").value == pytest.approx(
        100 * (before - after) / before
    )


def test_primary_benchmarks_leave_out_the_independent_source(collected):
    keys = [row.key for row in build("pcqc_runs", collected).rows]
    assert keys == [
        "clinic_dev",
        "clinic_wide",
        "clinic_sparse",
        "mean_of_primary",
        "clinic_elsewhere",
        "mean_of_all",
    ]
    supervision = build("question_supervision", collected)
    assert not any("elsewhere" in column.key for column in supervision.columns)


def test_paired_rows_are_run_a_of_each(collected):
    table = build("paired", collected)
    frame = collected.predictions.query("benchmark == 'clinic_dev' and run == 'A'")
    wide = frame.pivot(index="case_id", columns="method", values="correct")
    row = "clinic_dev:pcqc-grpo"
    gain = 100 * (wide.pcqc.mean() - wide.grpo.mean())
    assert table.cell(row, "gain").value == pytest.approx(gain)
    only = ((wide.pcqc & ~wide.grpo).sum(), (wide.grpo & ~wide.pcqc).sum())
    assert table.cell(row, "discordant") == f"{only[0]} / {only[1]}"
    controls = [r.key for r in table.rows if "terminal_only" in r.key]
    assert controls == [
        "clinic_elsewhere:pcqc-terminal_only",
        "clinic_elsewhere:executed_local-terminal_only",
    ]


def test_where_run_a_is_not_common_another_is_compared(collected):
    """Shared SFT has run A alone; it is one checkpoint whatever the letter."""
    changed = collected.with_runs({"terminal_only": ("B",)})
    assert changed.shown("shared_sft") == "A"
    table = build("question_supervision_paired", changed)
    assert table.caption.startswith("Run B of each method")
    frame = collected.predictions.query("benchmark == 'clinic_dev' and run == 'B'")
    mean = frame.groupby("method")["correct"].mean()
    gain = 100 * (mean.executed_local - mean.terminal_only)
    row = "clinic_dev:executed_local-terminal_only"
    assert table.cell(row, "gain").value == pytest.approx(gain)


def test_training_cost_counts_through_the_selected_update(collected):
    record = collected.record("pcqc", "A")
    earlier = {**record, "evaluation": {**record["evaluation"], "update": 10}}
    records = {**collected.records, ("pcqc", "A"): earlier}
    table = build("training_cost", replace(collected, records=records))
    group = collected.study.method("pcqc").terminal_group
    expected = 10 * collected.study.rl.cases_per_update * group
    assert table.cell("pcqc", "trajectories").value == expected


def test_information_access_is_the_papers(collected):
    ours, paper = build("information_access", collected), published().tables["information_access"]
    assert [row.cells for row in ours.rows] == [row.cells for row in paper.rows]


def test_information_access_notices_a_scorer_that_is_not_told_earlier_answers(
    collected, monkeypatch
):
    monkeypatch.setattr(
        information_access, "scorer_prompt", lambda case, exchanges: f"{case}{exchanges[-1]}"
    )
    table = build("information_access", collected)
    assert next(row for row in table.rows if row.key == "scorer").cells[1] == "In part"


def test_a_new_metric_is_one_entry_and_a_column_of_the_overview(collected, monkeypatch):
    """As docs/add-a-metric.md says, for runs that were made before."""
    per_turn = Metric("Tokens a turn", "tokens", 1, lambda r: r["actor_tokens"] / (r["turns"] + 1))
    before = overview.build(collected)
    monkeypatch.setitem(METRICS, "tokens_per_turn", replace(per_turn, overview=True))
    table = overview.build(collected)
    names, old = ([column.key for column in each.columns] for each in (table, before))
    assert names == [*old[:4], "tokens_per_turn", *old[4:]]
    rows = collected.predictions
    runs = rows[rows["method"] == "pcqc"].assign(per=lambda r: r.actor_tokens / (r.turns + 1))
    expected = runs.groupby(["run", "benchmark"])["per"].mean().mean()
    row = next(row for row in table.rows if row.key == "pcqc")
    assert row.cells[names.index("tokens_per_turn")].value == pytest.approx(expected)
