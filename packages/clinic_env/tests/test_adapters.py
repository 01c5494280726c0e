"""Each adapter in a consultation; skipped where what it adapts to is not installed."""

import asyncio
import contextlib
import importlib
import inspect
import os
import runpy
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clinic_env import GYMNASIUM_NAMES
from clinic_env.v2 import NAMES, ClinicEnv, FilePlayer, measure

ADAPTERS = Path(__file__).parents[1] / "adapters"


def framework(name: str):
    """A module of what is adapted to; in an environment of its own it must be there."""
    load = importlib.import_module if "OWN_ENVIRONMENT" in os.environ else pytest.importorskip
    return load(name)


def test_gymnasium_accepts_the_first_environment():
    gymnasium = framework("gymnasium")
    checker = framework("gymnasium.utils.env_checker")
    env = gymnasium.make("clinic_env.gym:Clinic-v1", render_mode="ansi")
    checker.check_env(env.unwrapped)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("world", NAMES)
def test_gymnasium_accepts_both_forms_without_a_warning(world):
    gymnasium = framework("gymnasium")
    checker = framework("gymnasium.utils.env_checker")
    for name in GYMNASIUM_NAMES:
        checker.check_env(gymnasium.make(name, world=world).unwrapped, skip_render_check=True)
    env = gymnasium.make("Clinic-v2", world=world, render_mode="ansi")
    opening, info = env.reset(seed=3)
    reply, *_ = env.step("Question: Any amber spots?")
    assert env.render() == f"user: {opening}\nassistant: Question: Any amber spots?\nuser: {reply}"
    assert world in info["instruction"]


def test_gymnasium_knows_the_names_whichever_is_imported_first():
    framework("gymnasium")
    for order in ("clinic_env, gymnasium", "gymnasium, clinic_env"):
        code = f"import {order}; print(gymnasium.make('Clinic-v2').reset(seed=1)[0])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "Options: " in done.stdout, done.stderr


@pytest.mark.parametrize("world", NAMES)
def test_gymnasium_s_own_vector_of_single_forms_steps_as_ours_does(world):
    """Observations, rewards and ends of 150 random steps, resets among them."""
    gymnasium = framework("gymnasium")
    make = gymnasium.make_vec
    ours, theirs = (
        make("ClinicDiscrete-v2", num_envs=5, vectorization_mode=mode, world=world)
        for mode in ("vector_entry_point", "sync")
    )
    assert isinstance(ours, gymnasium.vector.VectorEnv)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert (ours.reset(seed=4)[0] == theirs.reset(seed=4)[0]).all()
    rng = np.random.default_rng(0)
    for _ in range(150):
        actions = rng.integers(ours.single_action_space.n, size=5)
        for own, other in zip(ours.step(actions)[:4], theirs.step(actions)[:4], strict=True):
            assert np.array_equal(own, other)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space


def test_sb3_trains_and_plays_from_the_chats(tmp_path, monkeypatch):
    """20 updates lift it above the best guess."""
    framework("stable_baselines3")
    torch = framework("torch")
    adapter = runpy.run_path(str(ADAPTERS / "clinic_sb3.py"))
    model = adapter["learner"](NAMES[0]).learn(40_960)
    torch.save(model.policy.state_dict(), tmp_path / f"{NAMES[0]}.pt")
    monkeypatch.setenv("PPO", str(tmp_path))
    with FilePlayer(ADAPTERS / "clinic_sb3.py") as player:
        assert player.name == "PPO (stable-baselines3)"
        score = measure(player, NAMES[0], 60, draw="5b3" * 10)
    assert score.reached[0] > 2 * score.reached[1]
    assert score.questions > 1


def test_trl_sees_two_tools_a_reset_and_a_reward():
    """As `GRPOTrainer` takes an environment apart (TRL 1.16.0)."""
    tools = runpy.run_path(str(ADAPTERS / "clinic_trl.py"))["ClinicTools"]
    members = dict(inspect.getmembers(tools, predicate=inspect.isfunction))
    public = {name for name in members if not name.startswith("_")}
    assert public == {"reset", "get_reward", "ask", "diagnose"}
    env, other = tools(), ClinicEnv()
    opening = env.reset(seed=4, prompt="ignored")
    _, info = other.reset(seed=4)
    assert f"{other.instruction}\n\n" in opening
    assert opening.endswith(other.messages[1]["content"])
    assert env.ask(finding="amber") == other.step("Question: Any amber spots?")[0]
    with pytest.raises(ValueError, match="no such finding; the findings are amber"):
        env.ask(finding="fever")
    assert env.get_reward() == 0
    env.diagnose(label=info["answer"])
    assert env.get_reward() == 1
    with pytest.raises(ValueError, match="has ended"):
        env.ask(finding="azure")


def test_trl_can_describe_the_tools():
    describe = pytest.importorskip("transformers.utils").get_json_schema
    tools = runpy.run_path(str(ADAPTERS / "clinic_trl.py"))["ClinicTools"]()
    for method, argument in ((tools.ask, "finding"), (tools.diagnose, "label")):
        parameters = describe(method)["function"]["parameters"]
        assert parameters["required"] == [argument]
        assert parameters["properties"][argument]["type"] == "string"


@contextlib.contextmanager
def served():
    """The OpenEnv server on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, ADAPTERS / "clinic_openenv.py", "--port", str(port)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            assert server.poll() is None
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_openenv_plays_over_the_wire():
    framework("openenv.core")
    names = runpy.run_path(str(ADAPTERS / "clinic_openenv.py"))
    local = ClinicEnv()
    opening, _ = local.reset(seed=5)
    with served() as url, names["ClinicClient"](base_url=url).sync() as client:
        first = client.reset(seed=5).observation
        assert (first.text, first.instruction) == (opening, local.instruction)
        text = "Question: Any amber spots?"
        reply, _, _, _, info = local.step(text)
        result = client.step(names["ClinicAction"](text=text))
        assert (result.observation.text, result.reward, result.done) == (reply, 0.0, False)
        assert client.state().info["turn_rewards"] == info["turn_rewards"]
        result = client.step(names["ClinicAction"](text=f"Final Answer: {info['answer']}"))
        assert (result.reward, result.done) == (1.0, True)


def test_openenv_s_manifest_names_the_server():
    framework("openenv.core")
    yaml = framework("yaml")
    manifest = yaml.safe_load((ADAPTERS / "openenv.yaml").read_text())
    module, _, name = manifest["app"].partition(":")
    names = runpy.run_path(str(ADAPTERS / f"{module}.py"))
    assert names[name].__class__.__name__ == "FastAPI"
    assert (manifest["spec_version"], manifest["runtime"]) == (1, "fastapi")


def test_openenv_s_own_check_of_a_running_server_passes():
    framework("openenv.core")
    check = framework("openenv.cli._validation").validate_running_environment
    with served() as url:
        report = check(url)
    assert report["passed"], report


def test_verifiers_plays_an_episode(monkeypatch):
    vf = framework("verifiers.v1")
    monkeypatch.syspath_prepend(ADAPTERS)
    import clinic_verifiers as adapter

    config = adapter.ClinicConfig(id="clinic_verifiers", cases=2, first_seed=7)
    env = adapter.ClinicConversation(adapter.ClinicConversationConfig(taskset=config))
    first, second = env.taskset
    local = ClinicEnv()
    opening, info = local.reset(seed=7)
    assert (first.data.prompt, second.data.seed) == (opening, 8)
    # Tasks for training, for choosing and of a leaderboard are different cases.
    chosen = adapter.ClinicConfig(id="clinic_verifiers", split="validation", cases=1, first_seed=7)
    (task,) = adapter.ClinicTaskset(chosen).load()
    assert task.data.prompt != opening
    with pytest.raises(ValueError, match="split"):
        adapter.ClinicConfig(id="clinic_verifiers", split="leaderboard")
    script = ["Question: Any maroon spots?", "hm", f"Final Answer: {info['answer']}"]
    heard, recorded = [], {}

    async def turn(message=None):
        heard.append(message)
        reply = vf.AssistantMessage(content=script[len(heard) - 1])
        return vf.agent.Segment([reply])

    trace = SimpleNamespace(
        info=recorded,
        record_reward=lambda name, value, weight: recorded.update({name: value}),
        record_metric=lambda name, value: recorded.update({name: value}),
    )

    @contextlib.asynccontextmanager
    async def interaction(task):
        yield SimpleNamespace(turn=turn, trace=trace)

    doctor = SimpleNamespace(interaction=interaction)
    asyncio.run(env.run(first, SimpleNamespace(doctor=doctor)))
    replies = [local.step(text)[0] for text in script]
    assert heard == [None, *replies[:2]]
    assert (recorded["score"], recorded["turns"], len(recorded["turn_rewards"])) == (1.0, 3.0, 3)
