"""Memory that a placement moves: to the host, between phases, into the actor's cache."""

import pytest
from helpers import changed

from pcqc_base.errors import UserError
from pcqc_gpu.planning.checks import loads, require_fit
from pcqc_gpu.planning.memory import learner_memory, role_memories
from pcqc_study.study_file import load_study


@pytest.fixture(scope="module")
def paper():
    return load_study("paper")


def test_what_is_offloaded_lies_on_the_host(paper):
    on_device, on_host = (
        learner_memory(changed(paper, "placement.learner.offload", kind), "learner")
        for kind in ("none", "optimizer")
    )
    assert on_host.resident["optimiser"] == 0
    # A copy of the state lies there too while it is written.
    assert on_device.host == pytest.approx(12 * 8_190_735_360 / 8 / 2**30)
    assert on_host.host == on_device.resident["optimiser"] + on_device.host


def test_a_critics_optimiser_makes_room_in_rollouts(paper):
    kept = changed(paper, "placement.learner.offload", "none")
    states = 12 * 7_568_409_601 / 8 / 2**30
    resident, moved = (learner_memory(study, "critic") for study in (kept, paper))
    assert resident.during("rollout") - moved.during("rollout") == pytest.approx(states)
    assert resident.during("update") == pytest.approx(moved.during("update"))
    assert moved.host - resident.host == pytest.approx(states)
    assert learner_memory(kept, "learner") == learner_memory(paper, "learner")


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
