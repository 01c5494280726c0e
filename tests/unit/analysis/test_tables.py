"""Tables against numbers worked out by hand from the same predictions."""

import csv
import io
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import simulated

from analysis import collected as reader
from analysis import figures, tables
from analysis.companion import companion, differences
from analysis.figures import FIGURES
from analysis.published import published
from analysis.render import render
from analysis.report.dialogues import consultations
from analysis.table import Column, Number, Probability, Range, Row, Statement, Table
from pcqc.config import load_study
from pcqc.errors import UserError

# The simulated study has no published files; tests/unit/data has tables of those.
NAMES = [name for name, entry in tables.TABLES.entries.items() if entry.setting != "data"]


def cell(table, row, column):
    index = [c.key for c in table.columns].index(column)
    return next(r for r in table.rows if r.key == row).cells[index]


def build(name, collected):
    return tables.TABLES.module(name).build(collected)


def accuracies(frame, method, benchmark):
    rows = frame[(frame.method == method) & (frame.benchmark == benchmark)]
    return 100 * rows.groupby("run")["correct"].mean().to_numpy()


def test_main_accuracy_averages_within_runs_first(collected):
    table = build("main_accuracy", collected)
    by_benchmark = [
        accuracies(collected.predictions, "pcqc", name) for name in collected.benchmarks
    ]
    average = np.mean(by_benchmark, axis=0)
    found = cell(table, "pcqc", "average")
    assert found.value == pytest.approx(average.mean())
    assert found.sd == pytest.approx(average.std(ddof=1))
    assert cell(table, "shared_sft", "clinic_dev").sd is None
    assert [row.key for row in table.rows] == ["shared_sft", "grpo", "atpo", "pcqc"]


def without(collected, method):
    """The study without runs of a method."""
    methods = collected.study.methods
    changed = {**methods, method: replace(methods[method], runs=())}
    return replace(collected, study=replace(collected.study, methods=changed))


# Where the paper has a row for ATPO, and the training cost of every method.
WITH_ATPO = {
    "main_accuracy": ["atpo"],
    "inquiry_turns": ["atpo"],
    "training_cost": ["atpo"],
    "paired": ["clinic_dev:pcqc-atpo", "clinic_elsewhere:pcqc-atpo", "clinic_sparse:pcqc-atpo"],
    "claims": ["accuracy:1"],
    "instrument": ["atpo"],
}


@pytest.mark.parametrize(("name", "rows"), WITH_ATPO.items())
def test_atpo_has_its_rows(collected, name, rows):
    table = build(name, collected)
    for key in rows:
        row = next(row for row in table.rows if row.key == key)
        assert any(isinstance(cell, Number) for cell in row.cells)
        assert "not run" not in " ".join(c for c in row.cells if isinstance(c, str))


@pytest.mark.parametrize("name", ["main_accuracy", "inquiry_turns", "training_cost", "paired"])
def test_a_method_without_runs_is_said_not_to_be_run(collected, name):
    table = build(name, without(collected, "atpo"))
    rows = [row for row in table.rows if "atpo" in row.key]
    assert {row.key for row in rows} >= set(WITH_ATPO[name])
    for row in rows:
        assert "(not run)" in " ".join(row.cells)
        assert set(row.cells[2:]) == {"—"}
    published = tables.TABLES.module(name).paper()
    compared = [r for r in differences(table, published).rows if "atpo" in r.key]
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
        assert cell(table, method, "turns").value == update
        assert cell(table, method, "trajectories").value == update * size * group
    for column in ("trajectories", "turns"):
        assert cell(table, "atpo", column).value == cell(before, "atpo", column).value
    assert "G_T = 4, fixed update 7" in table.caption
    assert "consultations, selected update 28" in table.caption
    length = build("generation_length", fixed)
    assert [cell(length, "clinic_wide", m).value for m in ("grpo", "pcqc")] == [5, 7]
    assert "run A at its fixed update 5" in length.caption
    assert "PCQC at update 7." in length.caption
    assert "selected update 20" in build("generation_length", collected).caption


def test_configuration_is_of_the_methods_that_were_run(collected):
    with_runs = {row.key for row in build("configuration", collected).rows}
    without_runs = {row.key for row in build("configuration", without(collected, "atpo")).rows}
    assert with_runs - without_runs == {"atpo_tree", "atpo_optimizer"}


def test_configuration_gives_atpo_its_own_optimization(collected):
    study = replace(collected.study, rl=replace(collected.study.rl, learning_rate=0.5))
    table = build("configuration", replace(collected, study=study))
    others, atpo = (cell(table, row, "setting") for row in ("optimizer", "atpo_optimizer"))
    assert "learning rate 0.5" in others
    assert others.endswith("KL coefficient 0.001")
    assert atpo.startswith(
        "learning rate 0.0001 of the actor and 0.001 of the critic, clip 0.2 below and 0.28 above"
    )


def test_claims_without_atpo_say_so(collected):
    table = build("claims", without(collected, "atpo"))
    assert cell(table, "accuracy:missing", "comparison") == "Not run: ATPO."
    assert cell(table, "accuracy:0", "comparison") == "PCQC − GRPO"


def test_ablations_have_no_rows(collected):
    ablations = {n for n, m in collected.study.methods.items() if m.role == "ablation"}
    assert ablations
    assert not ablations & set(collected.methods())
    keys = {
        row.key for name in ("main_accuracy", "instrument") for row in build(name, collected).rows
    }
    assert not ablations & keys


def test_best_in_a_column_is_bold(collected):
    table = build("main_accuracy", collected)
    for i in range(1, len(table.columns)):
        numbers = [row.cells[i] for row in table.rows]
        best = max(n.value for n in numbers)
        assert all(n.best == (n.text() == f"{best:.2f}") for n in numbers)


def test_turns_and_tokens_are_means_over_consultations(collected):
    frame = collected.predictions
    rows = frame[(frame.method == "grpo") & (frame.benchmark == "clinic_wide")]
    turns = rows.groupby("run")["turns"].mean()
    assert cell(build("inquiry_turns", collected), "grpo", "clinic_wide").value == pytest.approx(
        turns.mean()
    )
    length = build("generation_length", collected)
    before, after = (cell(length, "clinic_wide", m).value for m in ("grpo", "pcqc"))
    tokens = rows.groupby("run")["actor_tokens"].mean()
    assert before == pytest.approx(tokens["A"])
    local = frame[(frame.method == "executed_local") & (frame.benchmark == "clinic_wide")]
    assert f"{local['actor_tokens'].mean():.2f} (Clinic-Wide)" in length.notes[0]
    assert cell(length, "clinic_wide", "reduction").value == pytest.approx(
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
    assert cell(table, row, "gain").value == pytest.approx(gain)
    only = ((wide.pcqc & ~wide.grpo).sum(), (wide.grpo & ~wide.pcqc).sum())
    assert cell(table, row, "discordant") == f"{only[0]} / {only[1]}"
    controls = [r.key for r in table.rows if "terminal_only" in r.key]
    assert controls == [
        "clinic_elsewhere:pcqc-terminal_only",
        "clinic_elsewhere:executed_local-terminal_only",
    ]


def test_where_run_a_is_not_common_another_is_compared(collected):
    """Shared SFT has run A alone; it is one checkpoint whatever the letter."""
    methods = dict(collected.study.methods)
    methods["terminal_only"] = replace(methods["terminal_only"], runs=("B",))
    changed = replace(collected, study=replace(collected.study, methods=methods))
    assert changed.shown("shared_sft") == "A"
    table = build("question_supervision_paired", changed)
    assert table.caption.startswith("Run B of each")
    frame = collected.predictions.query("benchmark == 'clinic_dev' and run == 'B'")
    mean = frame.groupby("method")["correct"].mean()
    gain = 100 * (mean.executed_local - mean.terminal_only)
    row = "clinic_dev:executed_local-terminal_only"
    assert cell(table, row, "gain").value == pytest.approx(gain)
    assert consultations(changed)["run"] == "B"
    for name in NAMES:
        table = build(name, changed)
        assert "run A of each" not in table.caption.lower()


def test_training_cost_counts_through_the_selected_update(collected):
    record = collected.record("pcqc", "A")
    earlier = {**record, "evaluation": {**record["evaluation"], "update": 10}}
    records = {**collected.records, ("pcqc", "A"): earlier}
    table = build("training_cost", replace(collected, records=records))
    group = collected.study.method("pcqc").terminal_group
    expected = 10 * collected.study.rl.cases_per_update * group
    assert cell(table, "pcqc", "trajectories").value == expected
    assert cell(build("training_cost", collected), "pcqc", "trajectories").value > expected


def test_information_access_is_the_papers(collected):
    module = tables.TABLES.module("information_access")
    assert [row.cells for row in module.build(collected).rows] == [
        row.cells for row in module.paper().rows
    ]


def test_claims_are_signed_in_favour_of_the_claim(collected):
    table = build("claims", collected)
    assert len({row.key.split(":")[0] for row in table.rows}) == 5
    turns = cell(table, "turns:0", "estimate").value
    expected = np.mean(
        [
            collected.per_run("grpo", name, "turns").mean()
            - collected.per_run("pcqc", name, "turns").mean()
            for name in collected.benchmarks
        ]
    )
    assert turns == pytest.approx(expected)
    assert cell(table, "turns:0", "verdict") == "supported"
    assert cell(table, "utility:0", "verdict") == "supported"


@pytest.mark.parametrize("name", [n for n, e in tables.TABLES.entries.items() if e.paper])
def test_published_table_has_the_form_of_ours(collected, name):
    """Shared row and column keys are what differences are computed over."""
    ours, paper = build(name, collected), tables.TABLES.module(name).paper()
    assert ours.columns[0].key == paper.columns[0].key
    assert len(companion(ours, paper, collected.study)) == 2


def test_differences_carry_both_sides_uncertainty():
    columns = (Column("method", "Method", numeric=False), Column("medqa", "MedQA"))

    def table(value, se):
        cells = ("PCQC", Number(value, se=se))
        return Table("main_accuracy", "t", "c", columns, (Row("pcqc", cells),))

    (row,) = differences(table(60.0, 0.3), table(62.54, 0.4)).rows
    assert row.cells[4].text() == "−2.54"
    assert row.cells[5].value == pytest.approx(1.96 * 0.5, abs=1e-4)
    (row,) = differences(table(60.0, None), table(62.54, 0.4)).rows
    assert row.cells[5] == "—"


@pytest.mark.parametrize("name", [n for n, e in tables.TABLES.entries.items() if e.paper])
def test_comparable_study_gets_differences(comparable, name):
    module = tables.TABLES.module(name)
    (found,) = companion(module.build(comparable), module.paper(), comparable.study)
    assert found.rows
    for row in found.rows:
        published, ours, difference, half = row.cells[2:]
        if isinstance(difference, Number):
            assert difference.value == pytest.approx(ours.value - published.value)
        else:
            assert difference in ("same", "differs", "—")
        if isinstance(half, Number):
            assert half.value >= 1.95 * max(ours.se, published.se)


def test_differences_of_a_paired_row_carry_both_intervals(comparable):
    module = tables.TABLES.module("paired")
    ours, paper = module.build(comparable), module.paper()
    rows = {row.key: row for row in differences(ours, paper).rows}
    found = rows["medqa:pcqc-atpo:gain"]
    assert found.cells[0] == "Clinic-Dev: PCQC − ATPO"
    assert found.cells[2].value == 4.50
    low, high = (cell(t, "medqa:pcqc-atpo", "interval") for t in (ours, paper))
    widths = [(r.high - r.low) / 2 for r in (low, high)]
    assert found.cells[5].value == pytest.approx(np.hypot(*widths))
    assert rows["medqa:pcqc-atpo:p"].cells[4] == "—"


def test_texts_of_a_comparable_study_are_same_or_differ(comparable):
    module = tables.TABLES.module("configuration")
    rows = {r.key: r.cells[4] for r in differences(module.build(comparable), module.paper()).rows}
    assert rows["max_turns:setting"] == "differs"
    assert rows["pcqc_terminal_group:setting"] == "same"


def test_cases_of_another_kind_are_not_compared(collected):
    """Real or not: a study without a benchmark of the paper gets the two tables."""
    own = replace(collected.study, synthetic=False)
    module = tables.TABLES.module("main_accuracy")
    ours, paper = companion(module.build(collected), module.paper(), own)
    assert ours.title.startswith("This study.")
    assert paper.title.startswith("Published.")


def test_the_papers_study_names_benchmarks_as_the_paper_is_read():
    ours, paper = load_study("paper").benchmarks, published().benchmarks
    assert {n: (b.title, b.cases, b.role) for n, b in ours.items()} == {
        n: (b.title, b.cases, b.role) for n, b in paper.items()
    }


@pytest.mark.parametrize("name", ["paper", "real-smoke"])
def test_configuration_names_pretrained_models(collected, name):
    study = load_study(name)
    table = build("configuration", replace(collected, study=study))
    settings = {row.key: row.cells[1] for row in table.rows}
    assert "world" not in settings
    if name == "paper":
        published_setting = {
            r.key: r.cells[1] for r in tables.TABLES.module("configuration").paper().rows
        }
        assert settings["actor"] == published_setting["actor"] == "Qwen3-8B"
        assert settings["scorer"] == published_setting["scorer"]
        assert settings["patient"] == "Frozen Qwen3-8B; SFT, 1 epoch"
        assert settings["atpo_tree"].endswith("up to 128 consultations a case")
    else:
        assert settings["actor"] == "SmolLM2-135M-Instruct.Q4_1"
        assert settings["scorer"] == f"Frozen {settings['actor']}"


def test_written_files_are_those_declared_and_repeat_byte_for_byte(collected):
    written = tables.write(collected)
    assert written == tables.TABLES.outputs(collected.study)
    before = {path: path.read_bytes() for path in written}
    tables.write(collected)
    assert {path: path.read_bytes() for path in written} == before


@pytest.mark.parametrize(("kind", "own"), [(tables, "claims"), (figures, "method_overview")])
def test_what_a_study_no_longer_fills_is_removed(collected, tmp_path, monkeypatch, kind, own):
    monkeypatch.chdir(tmp_path)
    registry = tables.TABLES if kind is tables else FIGURES
    shorter = replace(collected.study, continuation=None)
    paths = registry.outputs(collected.study)
    foreign = paths[0].with_name("mine.md")
    for path in [*paths, foreign]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of earlier settings")
    kind.write(replace(collected, study=shorter), [own])
    assert set(foreign.parent.iterdir()) == {*registry.outputs(shorter), foreign}


def test_csv_holds_raw_numbers(collected):
    table = build("main_accuracy", collected)
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(render("csv", [table])))}
    assert float(rows["pcqc"]["clinic_dev"]) == pytest.approx(
        accuracies(collected.predictions, "pcqc", "clinic_dev").mean()
    )
    assert float(rows["pcqc"]["clinic_dev_sd"]) > 0
    assert rows["shared_sft"]["clinic_dev_sd"] == ""


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Number(-0.561, signed=True), "−0.56"),
        (Number(0.001, signed=True), "0.00"),
        (Number(113664, digits=0), "113,664"),
        (Range(-6.667, 9.333), "[−6.67, +9.33]"),
        (Probability(0.00083), "0.00083"),
        (Probability(0.8746), "0.875"),
        (Probability(1e-9), "<0.0001"),
    ],
)
def test_numbers_are_printed_as_in_the_paper(cell, text):
    assert cell.text() == text


def test_texts_cannot_break_a_table():
    columns = (Column("a", "100% & _x_", numeric=False),)
    table = Table("t", "<b> | $x$", "a\\b {c}", columns, (Row("r", ("#1 ^ ~",)),))
    assert r"100\% \& \_x\_" in render("tex", [table])
    assert r"\$x\$" in render("tex", [table])
    assert "\\|" in render("md", [table])


def test_unknown_and_impossible_tables_are_refused(collected):
    with pytest.raises(UserError, match="no table 'main_acuracy'; did you mean 'main_accuracy'"):
        tables.write(collected, ["main_acuracy"])
    without = replace(collected, study=replace(collected.study, clinic=None))
    with pytest.raises(UserError, match="cannot fill the table 'instrument': it needs the setting"):
        tables.write(without, ["instrument"])
    methods = {n: replace(m, runs=()) for n, m in collected.study.methods.items()}
    without = replace(collected, study=replace(collected.study, methods=methods))
    with pytest.raises(UserError, match="'pcqc_runs': it needs the method 'pcqc'"):
        tables.write(without, ["pcqc_runs"])


def spoiled(folder, monkeypatch, change):
    """A copy of the study whose predictions were changed."""
    monkeypatch.chdir(folder)
    path = folder / "results/clinic/collected/predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    return vouched(simulated.load_study("clinic"))


def vouched(study):
    """The study, as if its collection had been made as it is now."""
    simulated.vouch(study)
    return study


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f[~((f.method == "grpo") & (f.run == "B"))],
            "no predictions of grpo run B on clinic_dev; evaluate and collect that run",
        ),
        (lambda f: pd.concat([f, f.iloc[:1]]), "is there twice for shared_sft run A"),
        (
            lambda f: f[~((f.method == "pcqc") & (f.run == "C") & (f.case_id == "clinic_dev-3"))],
            "pcqc run C was evaluated on other cases of clinic_dev",
        ),
        (lambda f: f.replace({"method": {"grpo": "gpro"}}), "method 'gpro' is not in study"),
        (lambda f: f.drop(columns=["turns", "run"]), "no column run, turns; collect the study's"),
    ],
)
def test_incomplete_collections_are_refused(study_folder, tmp_path, monkeypatch, change, message):
    shutil.copytree(study_folder / "results", tmp_path / "results")
    study = spoiled(tmp_path, monkeypatch, change)
    with pytest.raises(UserError, match=message):
        reader.load(study)


def test_missing_and_cut_files_are_named(study_folder, tmp_path, monkeypatch):
    shutil.copytree(study_folder / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results/clinic/collected/updates.parquet"
    study, whole = simulated.load_study("clinic"), path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(
        UserError, match=r"updates\.parquet: altered since .* move .*collected away"
    ):
        reader.load(study)
    with pytest.raises(UserError, match=r"updates\.parquet: .*collect the study's runs again"):
        reader.load(vouched(study))
    path.unlink()
    with pytest.raises(UserError, match=r"updates\.parquet: missing; move .*collected away"):
        reader.load(study)
    simulated.vouch(study)
    (study.results / "collected" / "receipt.json").unlink()
    with pytest.raises(
        UserError, match=r"collected/receipt\.json: missing; run the workflow again"
    ):
        reader.load(study)


@pytest.mark.parametrize("content", ["{}", "[]", "[{}]", "null", '[{"method": 1}]', "{"])
def test_a_list_of_runs_of_another_shape_is_one_line(study_folder, tmp_path, monkeypatch, content):
    shutil.copytree(study_folder / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/clinic/collected/runs.json").write_text(content)
    with pytest.raises(UserError, match=r"runs\.json.*; collect the study's runs again") as refused:
        reader.load(vouched(simulated.load_study("clinic")))
    assert "\n" not in str(refused.value)


# The \label of every table and figure of the paper.
PAPERS = {
    "tab:main_results": "main_accuracy",
    "tab:inquiry_results": "inquiry_turns",
    "tab:matched_beta0_control": "question_supervision",
    "tab:continuation_validation": "continuation",
    "tab:training_setup": "configuration",
    "tab:compute_performance": "training_cost",
    "tab:pipeline_visibility": "information_access",
    "tab:seed_robustness": "pcqc_runs",
    "tab:paired_inference": "paired",
    "tab:selectivity_support": "generation_length",
    "tab:question_supervision_inference": "question_supervision_paired",
    "tab:same_state_q1_normalization": "same_state_q1",
    "tab:compliant_continuation_sensitivity": "grounded_continuation",
    "fig:teaser": "teaser",
    "fig:method_overview": "method_overview",
    "fig:accuracy_inquiry": "accuracy_inquiry",
    "fig:continuation_validation": "continuation_gains",
}


def test_a_study_fills_every_table_and_figure_of_the_paper(collected):
    study = collected.study
    made = {*tables.TABLES.names(study), *FIGURES.names(study)}
    assert {*PAPERS.values()} <= made
    beside = {name for name, entry in tables.TABLES.entries.items() if entry.paper}
    assert beside == {name for label, name in PAPERS.items() if label.startswith("tab:")}


def test_a_text_that_looks_like_a_formula_is_quoted_in_csv_and_numbers_are_not():
    columns = (Column("text", "Text", numeric=False), Column("value", "Value"))
    rows = (
        Row("=a", ("=1+1", Number(-2.5))),
        Row("b", ("@SUM(A1)", Number(3.0))),
        Row("c", ("plain", Number(0.5))),
    )
    table = Table("t", "t", "c", columns, rows)
    assert render("csv", [table]).splitlines() == [
        "row,text,value",
        "'=a,'=1+1,-2.5",
        "b,'@SUM(A1),3",
        "c,plain,0.5",
    ]


def test_statements_are_compared_by_meaning_and_not_by_wording():
    columns = (Column("item", "Item", numeric=False), Column("said", "Said", numeric=False))

    def table(text, epochs):
        row = Row("actor", ("Actor", Statement(text, epochs)))
        return Table("configuration", "t", "c", columns, (row,))

    ours = table("Shared SFT, 3 epochs", 3)
    (same,) = differences(ours, table("Shared protocol-SFT, 3 epochs / step 96", 3)).rows
    (other,) = differences(ours, table("Shared protocol-SFT, 2 epochs / step 64", 2)).rows
    assert (same.cells[4], other.cells[4]) == ("same", "differs")
