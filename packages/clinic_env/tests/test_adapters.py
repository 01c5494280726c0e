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

import pytest

from clinic_env import ClinicEnv

ADAPTERS = Path(__file__).parents[1] / "adapters"


def framework(name: str):
    """A module of what is adapted to; in an environment of its own it must be there."""
    load = importlib.import_module if "OWN_ENVIRONMENT" in os.environ else pytest.importorskip
    return load(name)


def test_gymnasium_accepts_the_environment():
    gymnasium = framework("gymnasium")
    checker = framework("gymnasium.utils.env_checker")
    env = gymnasium.make("clinic_env.gym:Clinic-v1", render_mode="ansi")
    checker.check_env(env.unwrapped)
    opening, _ = env.reset(seed=3)
    reply, *_ = env.step("Question: Any amber spots?")
    assert env.render() == f"user: {opening}\nassistant: Question: Any amber spots?\nuser: {reply}"


def test_trl_sees_two_tools_a_reset_and_a_reward():
    """As `GRPOTrainer` takes an environment apart (TRL 1.16.0)."""
    tools = runpy.run_path(str(ADAPTERS / "clinic_trl.py"))["ClinicTools"]
    members = dict(inspect.getmembers(tools, predicate=inspect.isfunction))
    public = {name for name in members if not name.startswith("_")}
    assert public == {"reset", "get_reward", "ask", "diagnose"}
    env, other = tools(), ClinicEnv()
    opening = env.reset(seed=4, prompt="ignored")
    _, info = other.reset(seed=4)
    assert other.present.opening in opening
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
        assert client.reset(seed=5).observation.text == opening
        text = "Question: Any amber spots?"
        reply, _, _, _, info = local.step(text)
        result = client.step(names["ClinicAction"](text=text))
        assert (result.observation.text, result.reward, result.done) == (reply, 0.0, False)
        assert client.state().info["turn_rewards"] == info["turn_rewards"]
        result = client.step(names["ClinicAction"](text=f"Final Answer: {info['answer']}"))
        assert (result.reward, result.done) == (1.0, True)


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
    assert (recorded["right"], recorded["turns"], len(recorded["turn_rewards"])) == (1.0, 3.0, 3)
