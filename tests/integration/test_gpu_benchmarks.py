"""What a GPU is asked, on the tiny size of a CPU: the learner alone, and the engine alone."""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from helpers import ROUNDING, tiny_model

from benchmarks import engine as engine_alone
from benchmarks import learner, rollouts
from benchmarks.batches import KINDS, Draw
from benchmarks.measure import Page
from pcqc.engines.base import Completion, Request, Sampling, WrappedEngine
from pcqc.engines.transformers import TransformersEngine
from pcqc.training import token_trees
from pcqc.training.policy import Policy
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_json
from pcqc_base.system.processes import SINGLE_PROCESS
from pcqc_study.study_file import load_study


def tables_of(name, folder, *options) -> dict[str, list[dict]]:
    """What `python -m benchmarks.NAME` writes, run in a folder of its own."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # DeepSpeed may warn before it.
    assert done.stdout.strip().endswith((folder / "results" / f"{name}.md").read_text().strip())
    return read_json(folder / "results" / f"{name}.json")["tables"]


@pytest.mark.slow  # `test_tree_learner.py` has the same comparison
def test_the_learner_alone_on_a_cpu(tmp_path):
    """The tiny size in fp32, with DeepSpeed: trees are sequences, and each kind has its rows."""
    tables = tables_of("learner", tmp_path, "--rounds", "1")
    trees, updates = tables["Token trees beside sequences"], tables["Updates"]
    assert [(row["numbers"], row["batch"]) for row in trees] == [("float32", k) for k in KINDS]
    assert all(row[learner.APART] < 1e-5 and row[learner.GRADIENT] < 1e-5 for row in trees)
    assert all(row["trees"] < row["sequences"] for row in trees)
    assert [(row["batch"], row["checkpointing"], row["layers"]) for row in updates] == [
        *((kind, "yes", "plain") for kind in KINDS),
        ("PCQC", "yes", "compiled"),
        *((kind, "no", "plain") for kind in KINDS),
    ]
    assert all(row["nodes"] < row["tokens"] / 2 for row in updates)
    assert all(0 < row["share of a product's speed (%)"] < 100 for row in updates)


def test_a_node_that_sees_a_sibling_is_no_rounding(monkeypatch):
    kind = dataclasses.replace(KINDS["PCQC"], cases=1, rollouts=2, prompt=(200, 201), turns=(1, 2))
    assert learner.differences(kind, "float32", 4096)[learner.APART] < 1e-5

    def causal(last):
        column = torch.arange(last.shape[1])
        return (column[:, None] >= column).expand(len(last), 1, -1, -1)

    monkeypatch.setattr(token_trees, "tree_mask", causal)
    apart = learner.differences(kind, "float32", 4096)
    assert apart[learner.APART] > 0.01
    assert apart[learner.GRADIENT] > 0.01


def test_a_batch_by_hand():
    """A case of two rollouts of three turns, two candidates each; GRPO's has none."""
    kind = dataclasses.replace(
        KINDS["PCQC"],
        cases=1,
        rollouts=2,
        candidates=2,
        turns=(3, 4),
        prompt=(10, 11),
        says=(4, 5),
        hears=(3, 4),
    )
    made = Draw(1000, seed=0).batch(kind)
    lengths = [len(s.tokens) for s in made]
    assert lengths == [14, 14, 21, 21, 28, 28, 28] * 2
    assert [list(s.terms) for s in made[:7]] == [["question"]] * 6 + [["terminal"]]
    assert [int(s.selected.sum()) for s in made[:7]] == [4] * 6 + [12]
    assert len({tuple(s.tokens[:10]) for s in made}) == 1
    assert made[4].tokens[:24] == made[6].tokens[:24]
    alone = Draw(1000, seed=0).batch(dataclasses.replace(kind, candidates=0))
    assert [len(s.tokens) for s in alone] == [28, 28]


def test_a_size_that_does_not_fit_is_a_row_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def policy(model, tokens, processes, checkpointing, compiled):
        if not checkpointing:
            raise torch.OutOfMemoryError("CUDA out of memory. 62 GiB | 80 GiB\nHint: ...")
        return Policy(model, None, load_study("clinic").rl)

    monkeypatch.setattr(learner, "join", lambda devices: SINGLE_PROCESS)
    monkeypatch.setattr(learner, "product_rate", lambda dtype: 1e9)
    monkeypatch.setattr(learner, "make_policy", policy)
    page = Page("learner")
    learner.updates(page, [learner.TINY], tokens=4096, rounds=1)
    assert page.end() == 1
    rows = page.tables["Updates"]
    assert ["failed" in row for row in rows] == [False, False, False, True, True]
    assert all(row["seconds"] > 0 for row in rows[:3])
    told = [line for line in capsys.readouterr().out.splitlines() if "62 GiB" in line]
    assert len(told) == 2
    assert all("OutOfMemoryError: CUDA out of memory. 62 GiB / 80 GiB " in line for line in told)


class Crowded(WrappedEngine):
    """An engine whose samples depend on how many are drawn together."""

    def generate(self, requests, sampling):
        moved = [
            dataclasses.replace(r, streams=tuple(s + len(requests) for s in r.streams))
            for r in requests
        ]
        return self.engine.generate(moved, sampling)


SAMPLING = Sampling(1.0, 1.0, 8, (2,))


def some_requests() -> list[Request]:
    return dataclasses.replace(engine_alone.SMALL, requests=6, prompt=10).drawn(120)


def test_samples_that_repeat_are_counted():
    engine, wanted = TransformersEngine(tiny_model()), some_requests()
    rows = engine_alone.repeats(engine, wanted, SAMPLING, few=3)
    assert [(row["equal"], row["samples"]) for row in rows] == [(12, 12), (6, 6), (6, 6)]
    again, *others = engine_alone.repeats(Crowded(engine), wanted, SAMPLING, few=3)
    assert again["equal"] == 12
    assert all(row["equal"] < 6 for row in others)


def test_the_gap_is_rounding_where_the_weights_are_equal():
    model, wanted = tiny_model(), some_requests()
    engine, rl = TransformersEngine(model), load_study("clinic").rl
    groups = engine_alone.draw(engine, wanted, SAMPLING)
    told = engine_alone.gap(Policy(model, None, rl), wanted, groups)
    assert told["largest"] < ROUNDING
    assert told["tokens"] == sum(len(c.tokens) for group in groups for c in group)
    assert engine_alone.gap(Policy(tiny_model(1), None, rl), wanted, groups)["mean"] > 0.1
    prompts = [request.prompt for request in wanted]
    loaded = engine_alone.load_weights(engine, Policy(model, None, rl), prompts)
    assert loaded["gap"] < ROUNDING
    assert 0 < loaded["seconds"] < loaded["with the comparison"]


class Noting:
    """Stands for a `VllmEngine` and its vLLM: each sample has three tokens; notes parameters."""

    def __init__(self):
        self.llm, self.noted, self.tickets = self, [], []

    def generate(self, requests, sampling, use_tqdm=None):
        if isinstance(sampling, Sampling):
            return [[Completion([1, 2, 3], [0.0] * 3) for _ in r.streams] for r in requests]
        self.noted.append(([row["prompt_token_ids"] for row in requests], sampling))
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=[1, 2, 3])]) for _ in requests]

    def submit(self, request, sampling):
        self.tickets.append(request)
        return len(self.tickets) - 1

    def collect(self, wait):
        ended, self.tickets = dict(enumerate(self.tickets)), []
        return {t: self.generate([request], SAMPLING)[0] for t, request in ended.items()}

    def reset_cache(self):
        self.reset = True


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_each_way_switches_off_what_it_names():
    """Beside our own parameters, request by request; the last has none of them left."""
    from pcqc_gpu.engines.vllm import sampling_params

    engine, wanted = Noting(), some_requests()
    rows = rollouts.rates(engine, wanted, SAMPLING, rounds=1)
    assert [row["way"] for row in rows[3:]] == [*rollouts.SET, rollouts.BARE]
    assert rows[-1]["of bare vLLM's (%)"] == pytest.approx(100)
    streams = [s for request in wanted for s in request.streams]
    ours = [sampling_params(SAMPLING, s) for s in streams]
    fields = [name for name in ours[0].__struct_fields__ if not name.startswith("_")]
    changes = []
    for prompts, parameters in engine.noted[: len(rollouts.SET) + 2]:
        assert prompts == [list(r.prompt) for r in wanted for _ in r.streams]
        pairs = list(zip(parameters, ours, strict=True))
        changes.append([n for n in fields if any(getattr(a, n) != getattr(b, n) for a, b in pairs)])
    single = [list(off) for off in rollouts.SET.values()]
    assert changes[:-1] == [[], *single]
    assert sorted(changes[-1]) == sorted(name for (name,) in single)


@pytest.mark.long  # starts vLLM, in another process
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_the_engine_alone_on_a_cpu(tmp_path):
    tables = tables_of("engine", tmp_path, "--rounds", "1")
    assert tables["Start"][0]["seconds"] > 0
    assert [row["by"] for row in tables["New weights"]] == ["files", "files"]
    assert all(row["gap"] < 1e-4 for row in tables["New weights"])
    assert [row["samples"] for row in tables["Samples that repeat"]] == [16, 6, 6]
    assert all(row["equal"] == row["samples"] for row in tables["Samples that repeat"])
    assert len(tables["Rate"]) == 4 + len(rollouts.SET)
    assert all(row["tokens a second"] > 0 for row in tables["Rate"])
    assert tables["Gap to the learner, nats a token"][0]["largest"] < 1e-3
