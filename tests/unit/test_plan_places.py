"""What the places of roles cost in the plan, and what its numbers rest on."""

import dataclasses
import re

import pytest
from helpers import changed

from pcqc.errors import UserError
from pcqc.system.checkout import ROOT
from pcqc_gpu.planning.checks import loads, require_fit
from pcqc_gpu.planning.cost import run_cost
from pcqc_gpu.planning.memory import learner_memory, role_memories
from pcqc_gpu.planning.plan import make_plan, render
from pcqc_study.settings import load_study

EIGHT = tuple(range(8))
SIX = EIGHT[:6]


@pytest.fixture(scope="module")
def paper():
    return load_study("paper")


def placed(study, **devices):
    """The study with roles on other devices; a learner takes the actor along."""
    place = study.placement
    roles = {
        role: dataclasses.replace(getattr(place, role), devices=own)
        for name, own in devices.items()
        for role in (("learner", "actor") if name == "learner" else (name,))
    }
    for role in devices.keys() - {"learner"}:
        roles[role] = dataclasses.replace(roles[role], tensor_parallel=1)
    return dataclasses.replace(study, placement=dataclasses.replace(place, **roles))


def test_roles_on_devices_of_their_own_work_while_the_actor_does(paper):
    """GRPO's slower role decides, and a patient on two devices takes half of its time on one."""
    method = paper.method("grpo")
    single, double = (
        run_cost(placed(paper, learner=SIX, patient=own), method) for own in ((6,), (6, 7))
    )
    assert single["rollout"] == double["rollout"]
    alone = single["rollout"] + single["patient"]
    assert alone > 2 * double["rollout"]  # the patient is the slower one in both
    assert double["rollout"] + double["patient"] == pytest.approx(alone / 2)
    beside = run_cost(placed(paper, learner=SIX, patient=SIX[:4]), method)
    assert beside["patient"] == pytest.approx(alone / 4)  # they take turns


def test_a_copy_on_several_devices_sums_twice_in_each_layer(paper):
    """Of PCQC's 284,160 prompts of 770 tokens: 40 layers' sums of 5,120 numbers in bf16."""
    hours = [
        run_cost(changed(paper, "placement.scorer.tensor_parallel", split), paper.method("pcqc"))
        for split in (1, 8)
    ]
    sent = 284_160 * 770 * 2 * 40 * 5120 * 2 * (2 * 7 / 8)
    more = (hours[1]["scorer"] - hours[0]["scorer"]) * 3600
    assert more == pytest.approx(sent / 160e9)


def test_what_is_offloaded_lies_on_the_host(paper):
    on_device, on_host = (
        learner_memory(changed(paper, "placement.learner.offload", kind), "learner")
        for kind in ("none", "optimizer")
    )
    assert on_host.resident["optimiser"] == 0
    # A copy of the state lies there too while it is written.
    assert on_device.host == pytest.approx(12 * 8_190_735_360 / 8 / 2**30)
    assert on_host.host == on_device.resident["optimiser"] + on_device.host


def test_a_critics_optimiser_makes_room_in_rollouts_and_is_moved_twice_an_update(paper):
    kept = changed(paper, "placement.learner.offload", "none")
    states = 12 * 7_568_409_601 / 8 / 2**30
    resident, moved = (learner_memory(study, "critic") for study in (kept, paper))
    assert resident.during("rollout") - moved.during("rollout") == pytest.approx(states)
    assert resident.during("update") == pytest.approx(moved.during("update"))
    assert moved.host - resident.host == pytest.approx(states)
    assert learner_memory(kept, "learner") == learner_memory(paper, "learner")
    for name, moved in {"atpo": 2 * 222 * states / 10, "pcqc": 0.0}.items():
        before, after = (run_cost(s, paper.method(name))["update"] for s in (kept, paper))
        assert (after - before) * 3600 == pytest.approx(moved, abs=1e-6)


def test_a_methods_cache_takes_the_memory_that_it_leaves_free(paper):
    """36 layers of 8 heads of 128 numbers, keys and values, in bf16: 147,456 bytes a token."""
    fixed = changed(paper, "placement.actor.cache", "engine")
    caches = {}
    for before, after in zip(*(loads(s, role_memories(s)) for s in (fixed, paper)), strict=True):
        if after.cache is None:
            continue
        more = int((before.available - before.rollout) * 2**30 / 147_456)
        assert after.cache == 40_960 + more
        assert after.rollout == pytest.approx(after.available, abs=2e-4)
        assert after.update == before.update  # it sleeps then
        caches |= dict.fromkeys(after.methods, after.cache)
    assert caches["grpo"] > 1.5 * caches["atpo"] > 1.5 * 40_960
    require_fit(paper)


def test_a_cache_is_no_larger_than_all_sequences_and_fits_the_update_of_one_that_is_awake(paper):
    few = changed(paper, "engine.batch_size", 10)
    assert {load.cache for load in loads(few, role_memories(few))} == {None, 10 * 5120}
    awake = changed(paper, "placement.actor.sleeps", False)
    for load in loads(awake, role_memories(awake)):
        assert load.cache in (None, 40_960) or load.update <= load.available
    served = changed(paper, "placement.patient.cache", "free")
    with pytest.raises(UserError, match=r"placement\.patient\.cache: free is for the actor alone"):
        require_fit(served)


def test_every_number_of_the_plan_has_a_source(paper):
    sources = make_plan(paper)["sources"]
    assert sources["decoding_utilisation"] == (0.1, "assumed")
    assert sources["update_utilisation"] == (0.33, "the study's settings")
    assert sources.keys() == make_plan(paper)["assumptions"].keys() - {"reported_gpu_hours"}


def test_a_small_rate_that_was_measured_is_not_printed_as_nothing(paper):
    slow = changed(paper, "assumptions.decoding_utilisation", 0.00022434)
    (line,) = re.findall("^decoding_utilisation .*$", render(make_plan(slow)), re.MULTILINE)
    assert line.split()[1] == "0.0002243"


def test_the_page_beside_the_papers_hours_says_what_the_plan_prints(paper):
    page = (ROOT / "docs" / "plan.md").read_text()
    rows = re.findall(r"^\| (\w+), (\d+) updates \|(.*)\|$", page, re.MULTILINE)
    assert [name for name, *_ in rows] == ["GRPO", "PCQC"]
    for name, updates, cells in rows:
        planned = make_plan(paper)["methods"][name.lower()]
        cells = cells.replace(",", "").replace(" ", "")
        theirs, ours, reported, hours, ratio = cells.split("|")
        assert int(updates) == planned["updates"]
        assert int(theirs) == int(ours) == planned["trajectories"]
        assert float(reported) == paper.assumptions.reported_gpu_hours[name.lower()]
        assert hours == f"{planned['hours']['gpu_hours']:.1f}"
        assert ratio == f"{float(reported) / planned['hours']['gpu_hours']:.1f}"
