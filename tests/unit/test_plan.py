"""What a study needs, and placements that are refused."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from helpers import changed, make_tokenizer, tiny_model

from pcqc.models.folder import save_model
from pcqc.training.state import ModelState, States
from pcqc_base.errors import UserError
from pcqc_base.settings import LearnerPlacement, Placement, Pretrained, Servers
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_json
from pcqc_gpu.planning.checks import loads, misfits, require_fit
from pcqc_gpu.planning.hours import measured_file
from pcqc_gpu.planning.memory import learner_memory, role_memories, room
from pcqc_gpu.planning.plan import make_plan, render
from pcqc_gpu.planning.storage import storage
from pcqc_study.cli import main
from pcqc_study.study_file import load_study

GOLDEN = Path(__file__).parents[1] / "fixtures" / "plan"
EIGHT = tuple(range(8))


@pytest.fixture(scope="module")
def paper():
    return load_study("paper")


def placed(study, **settings):
    """The study with settings of its placement replaced; `__` stands for the dot in a path."""
    for path, value in settings.items():
        study = changed(study, "placement." + path.replace("__", "."), value)
    return study


def test_the_papers_plan_is_this(capsys):
    """After a change that is meant: `pcqc plan paper > tests/fixtures/plan/paper.txt`."""
    assert main(["plan", "paper"]) == 0
    assert capsys.readouterr().out == (GOLDEN / "paper.txt").read_text()


def test_a_study_without_placement_is_planned_as_far_as_it_goes(capsys):
    assert main(["plan", "clinic-mini"]) == 0
    assert "no `placement` in the settings" in capsys.readouterr().out
    plan = make_plan(load_study("clinic-mini"))
    assert (plan["memory"], plan["devices"], plan["problems"]) == ([], [], [])
    assert {method["measured"] for method in plan["methods"].values()} == {None}


def test_hours_are_those_of_measured_updates(paper, tmp_path, monkeypatch):
    """PCQC: 222 updates of 10 s, 9 checkpoints of 60 s, 23 states of 2 s, and 34 s at the start."""
    monkeypatch.chdir(tmp_path)
    seconds = {"whole": 10.0, "checkpoint": 60.0, "state": 2.0, "start": 34.0}
    measured = {f"seconds/{phase}": value for phase, value in seconds.items()}
    record = {"measured": measured, "device": "H800", "processes": 8}
    write_json(measured_file(paper, "pcqc"), record)
    plan = make_plan(paper)
    hours = (34 + 222 * 10 + 9 * 60 + 23 * 2) / 3600
    expected = {"hours": hours, "device_hours": 8 * hours, "device": "H800"}
    assert plan["methods"]["pcqc"]["measured"] == pytest.approx(expected)
    assert plan["methods"]["grpo"]["measured"] is None
    rows = {line.split()[0]: line.split() for line in render(plan).splitlines() if line}
    assert rows["pcqc"][4:] == [f"{8 * hours:.2f}", f"{24 * hours:.2f}", "H800"]
    assert rows["grpo"][4:] == ["not", "measured"]
    measured_file(paper, "pcqc").write_text("{")
    with pytest.raises(UserError, match=r"measured/pcqc\.json.* --measure --method pcqc"):
        make_plan(paper)


def test_zero_splits_what_each_stage_says(paper):
    """Rajbhandari et al. 2020, Figure 1: 16 bytes a parameter, split stage by stage."""
    gib = 8_190_735_360 / 2**30
    splits = [(1, 1, 8), (1, 8, 8), (8, 8, 8)]
    for stage, (weights, gradients, states) in enumerate(splits, start=1):
        held = learner_memory(placed(paper, learner__zero=stage), "learner").resident
        assert held["weights"] == pytest.approx(2 * gib / weights)
        assert held["gradients"] == pytest.approx(4 * gib / gradients)
        assert held["optimiser"] == pytest.approx(12 * gib / states)
        assert held["reference"] == held["weights"]


def test_sft_of_a_patient_of_its_own_is_another_course(paper):
    apart = changed(paper, "models.patient", Pretrained("Qwen/Qwen3-14B"))
    memory = {role.role: role for role in role_memories(apart)}
    assert memory["patient sft"].resident["weights"] == pytest.approx(
        2 * 14_768_307_200 / 8 / 2**30
    )
    (second,) = (load for load in loads(apart, role_memories(apart)) if "patient sft" in load.roles)
    assert second.roles[:2] == ("sft", "patient sft")  # the first is still held
    assert storage(apart)["states_gib"] > storage(paper)["states_gib"]


def test_sft_alone_is_refused_where_it_does_not_fit(paper):
    alone = dataclasses.replace(paper, methods={"shared_sft": paper.method("shared_sft")})
    assert misfits(alone) == []
    single = Placement(
        "H800", LearnerPlacement((0,), gradient_checkpointing=True), devices_per_node=1
    )
    (problem,) = misfits(dataclasses.replace(alone, placement=single, servers=Servers()))
    assert problem.startswith("sft: device 0 need 155.6 GiB each in the update (sft ")


def test_sft_and_rl_do_not_offload_at_once(paper):
    """A node's memory holds optimiser and state of the one or the other, and the sleeping actor."""
    study = placed(paper, learner__offload="optimizer", host_memory_gib=122.1 + 2 * 91.6)
    study = dataclasses.replace(study, methods={"grpo": paper.method("grpo")})
    assert misfits(study) == []
    assert "host memory" in misfits(placed(study, host_memory_gib=1.4 * 122))[0]


def test_roles_that_no_method_needs_take_no_memory(paper):
    alone = dataclasses.replace(paper, methods={"grpo": paper.method("grpo")})
    assert [role.role for role in role_memories(alone)] == ["sft", "learner", "actor", "patient"]
    assert misfits(placed(alone, scorer=None)) == []


def test_sizes_on_disk_are_those_of_files(tmp_path, monkeypatch):
    """A checkpoint and a state of a real model, but for headers."""
    monkeypatch.chdir(tmp_path)
    model = tiny_model(vocabulary=256)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 2, dtype=torch.long)).logits.sum().backward()
    optimizer.step()
    save_model(tmp_path / "checkpoint", model, make_tokenizer())
    States(tmp_path / "state", {"policy": ModelState(model, [optimizer])}).save({"step": 1})
    config, study = model.config, load_study("clinic-scratch")
    shape = {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden": config.intermediate_size,
    }
    scratch = dataclasses.replace(study.scratch_model, **shape)
    planned = storage(dataclasses.replace(study, scratch_model=scratch))
    for folder, key in (("checkpoint", "checkpoint_gib"), ("state", "state_gib")):
        files = (tmp_path / folder).rglob("*.safetensors")
        assert sum(f.stat().st_size for f in files) == pytest.approx(planned[key] * 2**30, rel=0.1)


MISFITS = {
    "a device that is not there": (
        {"actor__devices": (6, 7, 8)},
        "placement.actor.devices names device 8, but 1 x 8 are allocated; keep to 0 to 7",
    ),
    "no device": ({"patient__devices": ()}, "patient.devices must name at least one device"),
    "a device twice": ({"learner__devices": (0, 0)}, "learner.devices must name at least one"),
    "copies of unequal size": (
        {"scorer__devices": EIGHT[:6]},
        "placement.scorer.tensor_parallel: 4 does not divide its 6 devices",
    ),
    "heads that do not divide": (
        {"patient__devices": (0, 1, 2), "patient__tensor_parallel": 3},
        "placement.patient.tensor_parallel: 3 does not divide 32 heads and 8 key-value heads",
    ),
    "a copy on two nodes": (
        {"nodes": 2, "devices_per_node": 4, "scorer__tensor_parallel": 8},
        "placement.scorer.tensor_parallel: 8 puts a copy on two nodes",
    ),
    "an actor away from the learner": (
        {"actor__devices": (0, 1)},
        "placement.actor must have the learner's devices and tensor_parallel: 1, since its engine",
    ),
    "too little memory": (
        {"patient__tensor_parallel": 1, "learner__offload": "none"},
        "atpo: devices 0-7 need 97.3 GiB each in rollouts (learner 22.7, "
        "critic 18.5, actor 22.9, patient 22.9, scorer 10.4), and H800 has 75.6 available "
        "(4 kept free); a higher placement.learner.zero, ",
    ),
    "too little in the update": (
        {"learner__gradient_checkpointing": False},
        "in the update (learner",
    ),
    "too little host memory": (
        {"host_memory_gib": 100.0},
        "node 0 needs 383 GiB of host memory for what is offloaded, saved and asleep",
    ),
    "too small a disk": ({"disk_gib": 1000.0}, "results take 4409 GiB, and placement.disk_gib is"),
}


@pytest.mark.parametrize(("settings", "message"), MISFITS.values(), ids=MISFITS)
def test_a_placement_that_cannot_work_is_refused(paper, settings, message):
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        require_fit(placed(paper, **settings))
    assert str(refused.value).startswith("study 'paper' cannot run: ")
    assert "\n" not in str(refused.value)


def test_what_the_allocator_holds_counts_where_layers_keep_all_they_compute():
    """The case that ended at 62.7 GiB in tensors, on an H100 that the learner had for itself."""
    study = load_study("real")
    study = dataclasses.replace(study, methods={"grpo": study.method("grpo")})
    keeping = placed(
        study,
        learner__gradient_checkpointing=False,
        patient__sleeps=True,
        scorer__sleeps=True,
    )
    assert (study.rl.tokens_per_micro_batch, study.placement.device) == (32_768, "H100")
    needed = learner_memory(keeping, "learner")
    in_tensors = needed.during("update") - needed.update["held"]
    assert 74 < in_tensors < room(keeping)  # so the sum of its tensors alone would pass
    (problem,) = misfits(keeping)
    assert "device 0 need 93.7 GiB each in the update (learner 93.7, actor 0.0" in problem
    assert not misfits(placed(keeping, learner__gradient_checkpointing=True))
    assert "held" not in learner_memory(placed(keeping, device="CPU"), "learner").update


@pytest.mark.parametrize("path", ["rl.tokens_per_micro_batch", "engine.cache_tokens"])
def test_room_for_less_than_the_longest_consultation_is_refused(paper, path):
    with pytest.raises(UserError, match=rf"{path} is below the 5120 tokens .* raise it to 5120"):
        require_fit(changed(paper, path, 4096))


def test_a_role_that_is_served_elsewhere_takes_no_device(paper):
    elsewhere = placed(paper, scorer=None)
    require_fit(elsewhere)
    assert "scorer" not in {role.role for role in role_memories(elsewhere)}


def test_a_role_without_a_server_sits_in_the_learners_processes(paper):
    within = changed(paper, "servers.patient", None)
    with pytest.raises(UserError, match=r"placement.patient must have .* a server under servers.p"):
        require_fit(within)
    by_default = placed(within, patient=None)
    patient = next(r for r in role_memories(by_default) if r.role == "patient")
    assert patient.devices == paper.placement.learner.devices
    assert patient.resident["weights"] == pytest.approx(2 * 8_190_735_360 / 2**30)


def test_an_unknown_device_comes_with_the_nearest(paper):
    with pytest.raises(UserError, match="no kind 'H2000'; did you mean 'H200'"):
        make_plan(placed(paper, device="H2000"))


def test_a_refused_plan_is_printed_all_the_same(tmp_path, capsys):
    text = (ROOT / "config/studies/paper.yaml").read_text().replace("device: H800", "device: L40S")
    (tmp_path / "small.yaml").write_text(text)
    assert main(["plan", str(tmp_path / "small.yaml")]) == 2
    printed = capsys.readouterr()
    assert "TOO LITTLE" in printed.out
    assert printed.err.startswith("pcqc: error: study 'small' cannot run: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("job", [["sft"], ["train", "pcqc", "A"]], ids=lambda job: job[0])
def test_no_job_that_learns_starts_where_it_cannot_work(job, tmp_path, monkeypatch, capsys):
    text = (ROOT / "config/studies/paper.yaml").read_text().replace("zero: 3", "zero: 1")
    (tmp_path / "crowded.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main([job[0], "crowded.yaml", *job[1:]]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pcqc: error: study 'crowded' cannot run: ")
    assert "a higher placement.learner.zero" in error
