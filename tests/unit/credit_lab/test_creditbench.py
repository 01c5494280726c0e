"""CreditBench: its controls come out as they must, and its numbers are those of other paths."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from clinic_env import ClinicCase, ClinicEnv, Consultation, read_action
from clinic_env.world import asked_findings, read_findings
from credit_lab.audit.gradients import question_gradient, question_term
from credit_lab.audit.table import cosine, diagnostician, random_policy
from credit_lab.audit.tabular import CLINIC
from credit_lab.bench import cli, gradients
from credit_lab.bench.bundle import PUBLISHED, SCHEMA, State, read_bundle, write_bundle
from credit_lab.bench.probes import behaviour, costs
from credit_lab.bench.record import Sizes, record
from credit_lab.bench.score import score
from credit_lab.bench.table import CONTROLS, END, START, markdown, replaced
from credit_lab.quality.measures import regret, spearman
from pcqc.errors import UserError
from pcqc.study import load_study
from turn_credit import CREDITS, Credit, credit_update
from turn_credit.arithmetic import same_state_credit, terminal_advantages


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
    counts = dict.fromkeys(("shared_sft", "pcqc_early", "pcqc_late"), 0)
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
    exact, negated, at_random = (score(credit, few, exact=True) for credit in CONTROLS)
    assert exact.rank["q_star"].mean == pytest.approx(1)
    assert exact.regret["q_star"].mean == pytest.approx(0)
    assert negated.rank["q_star"].mean == pytest.approx(-1)
    assert negated.regret["q_star"].mean > at_random.regret["q_star"].mean > 0
    assert abs(at_random.rank["last"].mean) < 0.2
    assert min(exact.cosines["question"]) > 0.9
    assert max(negated.cosines["question"]) < -0.9
    assert exact.idle + negated.idle == pytest.approx(100)
    assert at_random.luck > 90


def test_measures_are_those_of_single_states():
    rng = np.random.default_rng(0)
    credits, values = rng.integers(0, 3, (2, 40, 4)).astype(float)
    rows = [tuple(map(pd.Series, pair)) for pair in zip(credits, values, strict=True)]
    assert spearman(credits, values) == pytest.approx([spearman(*row) for row in rows])
    assert regret(credits, values) == pytest.approx([regret(*row) for row in rows])
    differ = [row for row in rows if min(map(np.ptp, row)) > 0]
    by_scipy = [stats.spearmanr(*row).statistic for row in differ]
    assert [spearman(*row) for row in differ] == pytest.approx(by_scipy)


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
    others = [path[0] for path in state.row["rewards"]]
    assert [values[3] for values in group.values] == others
    assert group.values[0][2] == np.mean(others)


@pytest.mark.parametrize("name", ["pcqc", "executed_local", "c3", "expected_answer"])
def test_expected_gradients_are_those_of_the_audit(name):
    method = load_study("paper").methods[name]
    method = dataclasses.replace(method, question_group=gradients.CANDIDATES)
    for policy in (random_policy(CLINIC, 1), diagnostician(CLINIC)):
        trained = 1 if name == "executed_local" else gradients.CANDIDATES
        own = question_term(policy, gradients._credited(policy, CREDITS[name]), trained)
        assert cosine(own.question, question_gradient(policy, method).question) > 1 - 1e-9


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
    assert "needs `critiques`" in behaviour(CREDITS["arew"]).missing


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


def test_what_the_material_lacks_is_named():
    text = markdown([score(CREDITS["arew"], [])])
    assert "not scored: this credit needs `critiques`" in text


def test_a_file_s_credit_is_scored_beside_the_controls(few, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("credit_lab.bench.table.read_bundle", lambda: few)
    monkeypatch.setattr("turn_credit.registry.CREDITS", CREDITS)
    file = tmp_path / "mine.py"
    file.write_text(
        "from turn_credit import credit\n\n\n@credit('Mine', 'questions')\n"
        "def mine(group):\n    return group.read('expected')\n"
    )
    try:
        assert cli.main(["run", str(file)]) == 0
    finally:
        CREDITS.pop("mine")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| Mine | questions | ")
    assert len(lines) == 2 + 1 + len(CONTROLS)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such file"), ("x = 1\n", "it defines no credit")]
)
def test_a_file_without_a_credit_is_told(content, message, tmp_path, capsys):
    file = tmp_path / "mine.py"
    if content:
        file.write_text(content)
    assert cli.main(["run", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_the_page_has_a_row_for_every_credit():
    page = cli.PAGE.read_text(encoding="utf-8")
    table = page.split(START)[1].split(END)[0].strip()
    titles = {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]}
    credits = [credit for credit in CREDITS.values() if credit.of != "nodes"]
    assert titles == {credit.title for credit in (*credits, *CONTROLS)}
    assert replaced(page, table) == page
    with pytest.raises(UserError, match="the marks of the leaderboard are gone"):
        replaced("nothing", table)


def test_the_page_s_row_of_a_quick_credit_is_what_the_command_prints(states):
    own = score(CREDITS["expected_answer"], states)
    assert markdown([own]).splitlines()[-1] in cli.PAGE.read_text(encoding="utf-8")


@pytest.mark.numerical
def test_a_recording_has_the_cases_of_the_bundle_and_what_followed(states, tmp_path):
    sizes = Sizes(groups=6, cases=2, candidates=4, continued=1, continuations=2)
    rows = list(record(load_study("clinic"), {"shared_sft": None}, sizes, tmp_path))
    write_bundle(tmp_path / "own.parquet", rows)
    table = pq.read_table(tmp_path / "own.parquet", schema=SCHEMA).to_pylist()
    assert [row["policy"] for row in table] == ["shared_sft"] * 6
    assert (table[0]["case"], table[0]["initial"]) == tuple(
        states[0].row[name] for name in ("case", "initial")
    )
    (played,) = (State(row) for row in table if row["rewards"])
    assert played.draws == 2
    for k, question in enumerate(played.row["candidates"]):
        (finding,) = asked_findings(ClinicEnv(exact=False).world, question)
        assert played.row["exact_utilities"][k] > 0
        assert len(played.row["states"][k][0]) == len(played.row["scorer_beliefs"][k][0])
        assert 0 <= finding < 16
