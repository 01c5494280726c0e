"""CreditBench: its controls come out as they must, and its numbers are those of other paths."""

import re
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy.stats import spearmanr

from analysis.copied_tables import excerpt, shown
from clinic_env import ClinicCase, ClinicEnv, Consultation, read_action
from clinic_env.world import asked_findings, read_findings
from credit_lab.audit import gradients as audit
from credit_lab.bench import cli, table
from credit_lab.bench.bundle import PUBLISHED, read_bundle
from credit_lab.bench.score import score, shared
from credit_lab.bench.table import (
    CONTROLS,
    PAGE,
    accuracies,
    foretold,
    gradients,
    places,
    scores,
)
from pcqc_base.errors import UserError
from turn_credit import CREDITS, Credit, credit_update
from turn_credit.arithmetic import same_state_credit, terminal_advantages
from turn_credit.probes import behaviour, costs
from turn_credit.ranking import rank_correlation, regret


def questions_of(own) -> list[float]:
    """Cosines of the question part, where there is one."""
    cosines = [beside.question for beside in own.gradients.values()]
    return [value for value in cosines if not np.isnan(value)]


@pytest.fixture(scope="module")
def states():
    return read_bundle()


@pytest.fixture(scope="module")
def few(states):
    """Some of every policy, played on and not."""
    return states[::40] + [state for state in states if state.draws][::20]


def test_the_bundle_is_what_its_card_says(states):
    card = PUBLISHED.with_suffix(".md").read_text(encoding="utf-8")
    assert PUBLISHED.stat().st_size < 10e6
    counts = dict.fromkeys(("shared_sft", "pcqc_early", "pcqc_late", "grpo_late"), 0)
    for state in states:
        counts[state.row["policy"]] += 1
    for name, count in counts.items():
        played = sum(s.draws > 0 for s in states if s.row["policy"] == name)
        assert f"| `{name}` | {count:,} | {played:,} |" in card


def test_a_damaged_bundle_is_refused(tmp_path):
    path = tmp_path / "replay.parquet"
    with pytest.raises(UserError, match="no bundle with a card beside it"):
        read_bundle(path)
    path.write_bytes(PUBLISHED.read_bytes() + b"x")
    path.with_suffix(".md").write_bytes(PUBLISHED.with_suffix(".md").read_bytes())
    with pytest.raises(UserError, match=r"not the bundle of replay\.md"):
        read_bundle(path)


def test_what_is_exact_in_the_bundle_is_what_the_clinic_says(few):
    env = ClinicEnv(exact=False)
    for state in few[::5]:
        row, heard = state.row, " ".join(e["answer"] for e in state.row["exchanges"])
        labels = "ABCDEFGH"[: len(row["options"])]
        options = dict(zip(labels, row["options"], strict=True))
        case = ClinicCase(row["initial"], "", options, (), labels[row["answer"]])
        now = Consultation(env.world, case, env.rules.max_turns, env.rates)
        now.answered = read_findings(env.world, heard)
        now.asked = {f for e in row["exchanges"] for f in asked_findings(env.world, e["question"])}
        now.turns = row["turn"] - 1
        assert row["posterior"] == pytest.approx(now.posterior())
        for k, question in enumerate(row["candidates"]):
            text = f"Question: {question}" if question else f"Final Answer: {row['labels'][k]}"
            if not question and row["labels"][k] is None:
                continue
            assert row["q_star"][k] == pytest.approx(now.value_of(env.values, read_action(text)))
            assert row["expected"][k] == pytest.approx(now.expected_utility(question or ""))


def test_controls_come_out_right(few):
    exact, negated, at_random, reinforce = (score(c, few, exact=True) for c in CONTROLS)
    assert exact.rank["q_star"].mean == pytest.approx(1)
    assert exact.regret["q_star"].mean == pytest.approx(0)
    assert negated.rank["q_star"].mean == pytest.approx(-1)
    assert negated.regret["q_star"].mean > at_random.regret["q_star"].mean > 0
    assert abs(at_random.rank["last"].mean) < 0.2
    assert min(questions_of(exact)) > 0.9
    assert max(questions_of(negated)) < -0.9
    assert min(questions_of(reinforce)) == pytest.approx(1)
    assert exact.idle + negated.idle == pytest.approx(100)
    assert at_random.luck > 90


def test_nothing_else_that_is_scored_moves_the_random_control(few, monkeypatch):
    group, other = (state.candidates(0, state.values["q_star"]) for state in (few[0], few[-1]))
    monkeypatch.setattr(table, "_SEEN", Counter())
    first, again = table.at_random(group), table.at_random(group)
    assert not np.array_equal(first, again)
    table._SEEN.clear()
    table.at_random(other)
    assert np.array_equal(table.at_random(group), first)


def test_ranks_are_spearman_s_and_zero_without_differences():
    rng = np.random.default_rng(0)
    credits, values = rng.integers(0, 9, (2, 40, 4)).astype(float)
    credits[:3] = 1.0
    differ = [np.ptp(c) > 0 < np.ptp(v) for c, v in zip(credits, values, strict=True)]
    assert 30 < sum(differ) < 40
    wanted = [
        spearmanr(c, v).statistic if differs else 0.0
        for c, v, differs in zip(credits, values, differ, strict=True)
    ]
    assert rank_correlation(credits, values) == pytest.approx(wanted)


@pytest.mark.slow
def test_every_credit_is_asked_at_the_same_states(few):
    """The states at which all candidates ask and were played on, whatever a credit reads."""
    names = ("pcqc", "expected_answer", "c3", "grpo", "igpo", "vineppo")
    every = [score(CREDITS[name], few) for name in names]
    used = shared(few)
    assert {own.states for own in every} == {len(used)}
    assert 0 < len(used) < len(few)
    assert all(state.draws and None not in state.row["candidates"] for state in used)
    for value in ("q_star", "last"):
        differ = sum(np.ptp(state.values[value]) > 1e-9 for state in used)
        assert {own.rank[value].count for own in every} == {differ}
        assert f"({differ})" in scores(every).splitlines()[0]


def test_accuracies_are_those_of_the_pages():
    """GRPO and PCQC stand in both tables, which so must be of one base model."""
    trained = accuracies()
    by_base = shown(table.METHODS, "clinic-full", "overview_by_base").splitlines()
    peers = excerpt(table.TRAINED, "clinic-full", "peers").splitlines()
    for title, head in (("GRPO", "| GRPO | 1 |"), ("PCQC", "| **PCQC** | 1 |")):
        (row,) = [line for line in by_base if line.startswith(head)]
        assert f" {trained[title]} |" in row
        assert any(line.startswith(f"|{title}|{trained[title]}|") for line in peers)
    (row,) = [line for line in by_base if line.startswith("| Same-State-Q1 | 1 |")]
    assert f" {trained['Same-State-Q1']} |" in row
    assert "±" in trained["AReW"]
    assert "±" not in trained["TIPS"]
    with pytest.raises(UserError, match="no mark `<!-- from clinic-full: peers -->` above a"):
        accuracies(credits=table.METHODS)


@pytest.mark.slow
def test_what_a_column_foretells_is_its_correlation_with_training(few):
    """Against scipy's, of accuracies that are given."""
    names = ("pcqc", "grpo", "c3", "gigpo", "mt_grpo")
    trained = {"PCQC": "79.1 ± 1", "GRPO": "74.0 ± 3", "C3": "67.6", "GiGPO": "78.0"}
    trained |= {"MT-GRPO": "79.4", "Not scored": "99.9 ± 1"}
    every = [score(CREDITS[name], few) for name in names]
    rows = foretold(every, trained).splitlines()
    assert rows[0] == (
        "| column | three runs or more (2) | all trained (5) | without VinePPO and C3 (4) |"
    )
    wanted = spearmanr(
        [own.rank["last"].mean for own in every], [79.1, 74.0, 67.6, 78.0, 79.4]
    ).statistic
    (row,) = [row for row in rows if row.startswith("| rank, last ")]
    assert row.startswith(f"| rank, last | — | {wanted:+.2f} [")
    placed = [line.strip("| ").split(" | ") for line in places(every, trained).splitlines()[2:]]
    assert [row[:3] for row in placed[:2]] == [["MT-GRPO", "79.4", "1"], ["PCQC", "79.1 ± 1", "2"]]
    best = max(every, key=lambda own: own.rank["last"].mean).title
    assert [row[0] for row in placed if row[3] == "1"] == [best]


def test_equal_favourites_share_the_regret():
    value = np.array([[0.9, 0.6, 0.5]])
    for credits, lost in (([0.0, 1, 0], 30), ([1.0, 1, 0], 15), ([1.0, 0, 0], 0)):
        assert regret(np.array([credits]), value) == pytest.approx([lost])


def test_a_credit_of_questions_is_asked_for_each_candidate(few):
    for state in few:
        rows = CREDITS["pcqc"](state.candidates(0))
        direct = same_state_credit(state.row["utilities"])
        assert [row[0] for row in rows] == pytest.approx(direct)


def test_a_credit_of_turns_sees_the_consultations_that_came_to_the_state(states):
    state = next(s for s in states if s.draws and s.row["turn"] == 3)
    group = state.consultations(1, "scorer")
    (rows,) = credit_update("grpo", [group])
    rewards = [path[1] for path in state.row["rewards"]]
    assert [row[2] for row in rows] == pytest.approx(terminal_advantages(rewards))
    assert len({names[2] for names in group.states}) == 1
    assert group.beliefs[0][2] == pytest.approx(state.row["baseline"], abs=1e-6)
    assert group.critiques[0][2] == np.sign(group.beliefs[0][3] - group.beliefs[0][2])
    assert group.critiques[0][-1] == 0
    others = [np.mean([path[0], *path[2:]]) for path in state.row["rewards"]]
    assert [values[3] for values in group.values] == pytest.approx(others)
    assert group.values[0][2] == pytest.approx(np.mean(others))


def test_what_credits_read_and_do_where_nothing_differs():
    pcqc, first = behaviour(CREDITS["pcqc"]), behaviour(CREDITS["same_state_q1"])
    assert (pcqc.reads, pcqc.alone, pcqc.compares) == ({"utilities"}, False, True)
    assert (first.alone, first.compares) == (True, True)
    assert behaviour(CREDITS["executed_local"]).compares is False
    assert behaviour(CREDITS["igpo"]).reads == {"beliefs", "rewards"}
    assert (pcqc.ties, pcqc.single) == ("0", "0")

    def broken(group):
        return [np.asarray(row) / np.ptp(row) for row in group.given("utilities")]

    told = behaviour(Credit("broken", "Broken", "questions", "group", broken))
    assert (told.ties, told.single) == ("not finite", "not finite")
    assert behaviour(CREDITS["grpo"]).reads == {"rewards"}
    assert "needs `implicit`" in behaviour(CREDITS["itpo"]).missing
    assert behaviour(CREDITS["arew"]).reads == {"critiques", "rewards"}


def test_costs_by_hand():
    """Four candidates; consultations of five turns, of which two follow a candidate."""

    def of(name):
        return costs(CREDITS[name], behaviour(CREDITS[name]), 4, 5.0, 2.0)

    assert of("pcqc") == (3 / 4, 1)
    assert of("same_state_q1") == (3, 4)
    assert of("executed_local") == (0, 2)
    assert of("c3") == ((3 + 8) / 4, 0)
    assert of("grpo") == (3 / 4, 0)
    assert of("igpo") == (3 / 4, 1)
    assert of("vineppo") == (3 / 4 + 2, 0)


def test_one_answer_is_luck_and_an_expectation_is_none(few):
    assert score(CREDITS["expected_answer"], few).luck == pytest.approx(0, abs=1e-9)
    assert score(CREDITS["pcqc"], few).luck > 20


def test_what_the_material_lacks_is_named(few, quick_gradients, monkeypatch):
    every = [score(CREDITS["itpo"], [])]
    assert "not scored: this credit needs `implicit`" in scores(every)
    assert "ITPO" not in gradients(every)
    # Shifts are known in the tiny clinic, whose policies are tables.
    monkeypatch.setattr(audit, "CONSULTATIONS", 2)
    every = [score(CREDITS["infopo"], few)]
    assert "not scored: this credit needs `shifts`" in scores(every)
    assert "| InfoPO | " in gradients(every)


@pytest.fixture
def quick_gradients(monkeypatch):
    """The tiny clinic has one policy."""
    some = {"random 1": audit._policies()["random 1"]}
    monkeypatch.setattr(audit, "_policies", lambda: some)


@pytest.fixture
def own_file(tmp_path):
    """A file with a credit of questions, `mine`, which is forgotten afterwards."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from turn_credit import credit\n\n\n@credit('Mine', 'questions')\n"
        "def mine(group):\n    return group.read('expected')\n"
    )
    yield file
    CREDITS.pop("mine", None)


def test_a_file_s_credit_is_scored_beside_the_controls(
    few, quick_gradients, own_file, capsys, monkeypatch
):
    monkeypatch.setattr(table, "read_bundle", lambda path: few[::5])
    assert cli.main(["run", str(own_file)]) == 0
    ranks, besides = capsys.readouterr().out.strip().split("\n\n")
    assert ranks.splitlines()[2].startswith("| Mine | questions | ")
    assert len(ranks.splitlines()) == len(besides.splitlines()) == 2 + 1 + 2 + len(CONTROLS)
    assert all(f"\n| {name} | " in rows for name in ("PCQC", "GRPO") for rows in (ranks, besides))
    assert "| *REINFORCE* | 1.00 to 1.00 | 1.00 |" in besides


def test_a_credit_of_a_wrong_length_costs_the_file_s_others_nothing(
    few, own_file, capsys, monkeypatch
):
    """One is short wherever it is asked, one in the tiny clinic alone: its states have one fact."""
    own_file.write_text(
        own_file.read_text()
        + "\n\n@credit('Short', 'questions')\ndef short(group):\n"
        + "    return [row[1:] for row in group.read('utilities')]\n"
        + "\n\n@credit('Later', 'questions')\ndef later(group):\n"
        + "    rows = group.read('utilities')\n    return rows if len(rows) == 1 else rows[1:]\n"
    )
    monkeypatch.setattr(table, "read_bundle", lambda path: few[::5])
    try:
        assert cli.main(["run", str(own_file)]) == 0
    finally:
        for name in ("short", "later"):
            CREDITS.pop(name, None)
    ranks = capsys.readouterr().out.strip().split("\n\n")[0]
    assert re.search(r"^\| Mine \| questions \| [-\d.]+ \[", ranks, re.M)
    assert (
        "| Short | questions | not scored: credit 'short' returns an array of shape (2,)" in ranks
    )
    assert "| Later | questions | not scored: credit 'later' returns" in ranks


def test_a_bundle_in_which_nothing_was_played_on_is_refused(states, own_file, capsys, monkeypatch):
    alone = [state for state in states if not state.draws][:5]
    monkeypatch.setattr(table, "read_bundle", lambda path: alone)
    assert cli.main(["run", str(own_file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "replay.parquet: at none of its 5 states do all candidates ask and go on" in line


@pytest.mark.parametrize("command", ["run", "train"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("import no_such_module\n", "mine.py: ModuleNotFoundError: No module named 'no_such"),
        (
            "from turn_credit import credit\n@credit('Odd', 'question')\ndef odd(group): ...\n",
            "mine.py: credit 'odd' is of 'question'; did you mean 'questions'?",
        ),
        (
            "from turn_credit import credit\n"
            "@credit('Mine', 'questions')\ndef mine(group): return 1.0\n",
            "a credit returns an array for each consultation or state",
        ),
        ("x = 1\n", "it defines no credit"),
        (
            "from turn_credit import credit\n@credit('Mine', 'turns')\ndef grpo(group): ...\n",
            "mine.py: credit 'grpo' is GRPO of turn_credit.turns; give the function another name",
        ),
    ],
)
def test_a_file_without_a_credit_is_told(command, content, message, tmp_path, capsys):
    file = tmp_path / "mine.py"
    if content:
        file.write_text(content)
    try:
        assert cli.main([command, str(file)]) == 2
    finally:
        CREDITS.pop("mine", None)
    told = capsys.readouterr()
    assert message in told.err
    assert (len(told.err.splitlines()), told.out) == (1, "")


def test_the_page_has_a_row_for_every_credit():
    rows = shown(PAGE, cli.OWNER, "scores").splitlines()[2:]
    titles = {line.split(" | ")[0].removeprefix("| ") for line in rows}
    credits = [credit for credit in CREDITS.values() if credit.of != "nodes"]
    assert titles == {credit.title for credit in (*credits, *CONTROLS)}


@pytest.fixture
def own_page(few, quick_gradients, tmp_path, monkeypatch):
    """A copy of the page, whose tables are of GRPO alone and of few states from here on."""
    monkeypatch.setattr(table, "read_bundle", lambda path: few[::5])
    monkeypatch.setattr(table, "PAGE", tmp_path / "README.md")
    monkeypatch.setattr(table, "worlds", partial(table.worlds, 4))
    monkeypatch.setattr("turn_credit.CREDITS", {"grpo": CREDITS["grpo"]})
    table.PAGE.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    return table.PAGE


def test_a_page_with_other_tables_is_refused(own_page, capsys):
    assert cli.main(["leaderboard", "--check"]) == 2
    assert "its tables are others; run `creditbench leaderboard`" in capsys.readouterr().err
    assert cli.main(["leaderboard"]) == cli.main(["leaderboard", "--check"]) == 0
    assert "| GRPO | turns |" in own_page.read_text(encoding="utf-8")
    # The table between other marks stays.
    before, after = (shown(page, cli.OWNER, "trained") for page in (PAGE, own_page))
    assert before == after


def test_a_recording_without_a_file_is_the_bench_s_own(own_page, tmp_path, monkeypatch):
    recorded = []
    monkeypatch.setattr("credit_lab.bench.record.record_run", lambda *given: recorded.append(given))
    assert cli.main(["record", "clinic", "pcqc", "A", str(tmp_path / "my.parquet")]) == 0
    assert own_page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert cli.main(["record", "clinic", "pcqc", "A"]) == 0
    assert [bundle for *_, bundle in recorded] == [tmp_path / "my.parquet", PUBLISHED]
    assert len(shown(own_page, cli.OWNER, "scores").splitlines()) == 3 + len(CONTROLS)


def test_the_page_s_row_of_a_quick_credit_is_what_the_command_prints(states):
    own = score(CREDITS["expected_answer"], states)
    assert scores([own]).splitlines()[-1] in PAGE.read_text(encoding="utf-8")
