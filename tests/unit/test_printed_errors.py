"""Why an engine in a process of its own does not start, as the last line says it."""

import os
import subprocess
import sys
from concurrent.futures import Future
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from engine_checks import start_small
from helpers import make_tokenizer, tiny_model

from pcqc_base.errors import UserError
from pcqc_gpu.engines import vllm_start
from pcqc_gpu.engines.printed_errors import Overheard, last_exception, overhear
from pcqc_gpu.engines.vllm import VllmEngine

POINTER = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
# What a process of vLLM's ends with: what it does, and the cause in the last line.
ENDS = {
    "missing package": (
        "import flashinfer_that_is_missing",
        "ModuleNotFoundError: No module named 'flashinfer_that_is_missing'",
    ),
    "no memory": (
        "import torch; raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 G')",
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 G",
    ),
    "wrong driver": (
        "raise RuntimeError('The NVIDIA driver on your system is too old (found version 12020).')",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
    ),
    "corrupt weights": (
        "from safetensors import safe_open; safe_open(__file__, 'np')",
        "SafetensorError: Error while deserializing header: header too large",
    ),
    "head size": (
        "raise ValueError('Head size 48 is not supported by FLASH_ATTN.')",
        "ValueError: Head size 48 is not supported by FLASH_ATTN.",
    ),
    "kill": ("import os; os.kill(os.getpid(), 9)", "its process EngineCore was killed (SIGKILL)"),
}
# As vLLM's processes do: an error is logged to standard output, then raised again.
CHILD = """
import datetime, os, sys, traceback
try:
    {work}
except Exception:
    lines = traceback.format_exc().splitlines()
    for line in ["EngineCore failed to start.", *lines]:
        print("(EngineCore pid=7) ERROR 11-27 16:50:00 [core.py:936]", line)
    for line in ["Process EngineCore:", *lines]:
        print(line, file=sys.stderr)
    sys.exit(1)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts an engine whose process does `work`; what is raised points to that process's lines."""
    pytest.importorskip("vllm")
    tiny_model(head_dim=32).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    script = tmp_path / "child.py"

    def run(work):
        def refuse(**settings):
            script.write_text(CHILD.format(work=work))
            status = subprocess.run([sys.executable, str(script)], check=False).returncode
            raise RuntimeError(POINTER.format({"EngineCore": status}))

        monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
        monkeypatch.setattr(vllm_start, "vllm_package", lambda: SimpleNamespace(LLM=refuse))
        start_small(tmp_path, shared=False)

    return run


@pytest.mark.parametrize(("work", "cause"), ENDS.values(), ids=ENDS)
def test_the_line_ends_in_the_cause(start, work, cause, capfd):
    with pytest.raises(UserError) as caught:
        start(work)
    assert str(caught.value).endswith(f": vLLM does not start with this model: {cause}")
    assert "\n" not in str(caught.value)
    shown = capfd.readouterr()
    assert ("EngineCore failed to start" in shown.out) is ("killed" not in cause)
    assert ("Process EngineCore:" in shown.err) is ("killed" not in cause)


OUT_OF_MEMORY = b"""(EngineCore pid=7) Traceback (most recent call last):
(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory.
"""


@pytest.mark.parametrize(
    ("printed", "status", "why"),
    [
        (OUT_OF_MEMORY, 1, r"OutOfMemoryError: CUDA out of memory\."),
        (b"", -9, r"its process EngineCore_DP0 was killed \(SIGKILL\)"),
    ],
)
def test_calls_that_wait_for_an_engine_that_ends_fail_with_its_cause(printed, status, why):
    """Calls under way too, to which vLLM says nothing where its process was killed."""
    pytest.importorskip("vllm")
    resources = SimpleNamespace(engine_dead=False)
    processes = SimpleNamespace(finished_procs=lambda: {"EngineCore_DP0": status})
    resources.engine_manager = processes
    called, steps = Future(), SimpleQueue()
    core = SimpleNamespace(resources=resources, outputs_queue=steps, utility_results={3: called})

    def step():
        raise steps.get(timeout=10)

    engine = VllmEngine.__new__(VllmEngine)
    with overhear() as heard:
        os.write(1, printed)
    llm = SimpleNamespace(llm_engine=SimpleNamespace(step=step, engine_core=core))
    llm.wake_up = lambda: called.result(10)
    engine.starting = SimpleNamespace(heard=heard, wait=lambda: llm)
    engine.shared, engine.running, engine.sleeps = False, {1: (None, {0: None})}, True
    assert engine.llm
    resources.engine_dead = True
    for waits in (lambda: engine.collect(wait=True), engine.wake):
        with pytest.raises(UserError, match=rf"vLLM ended; .*: {why}$"):
            waits()


def test_who_prints_goes_on_where_nobody_reads_it_any_more():
    """64 KiB fill a pipe: whoever writes more would wait for a reader."""
    reader, writer = os.pipe()
    heard = Overheard((writer,))
    heard.begin()
    os.close(reader)
    for _ in range(40):
        os.write(writer, b"x" * 4095 + b"\n")
    os.write(writer, b"KeyError: 'lm_head'\n")
    heard.end()
    os.close(writer)
    for thread in heard.threads:
        thread.join(10)
    assert list(heard.lines)[-2:] == ["KeyError: 'lm_head'", ""]


def test_of_several_processes_the_first_to_fail_is_named():
    lines = """\
(Worker_TP1 pid=9) ERROR 11-27 16:50:00 [executor.py:880] WorkerProc failed to start.
(Worker_TP1 pid=9) ERROR 11-27 16:50:00 [executor.py:880] Traceback (most recent call last):
(Worker_TP0 pid=8) ERROR 11-27 16:50:01 [executor.py:880] Traceback (most recent call last):
(Worker_TP1 pid=9) ERROR 11-27 16:50:00 [executor.py:880]   File "a.py", line 1, in b
(Worker_TP1 pid=9) ERROR 11-27 16:50:00 [executor.py:880]
(Worker_TP1 pid=9) ERROR 11-27 16:50:00 [executor.py:880] KeyError: 'lm_head'
(Worker_TP0 pid=8) ERROR 11-27 16:50:01 [executor.py:880] DistNetworkError: peer is gone
(Worker_TP1 pid=9) Traceback (most recent call last):
(Worker_TP1 pid=9) ValueError: no weights for lm_head
Process EngineCore:
Traceback (most recent call last):
Exception: WorkerProc initialization failed. See stack trace for root cause.
""".splitlines()
    assert last_exception(lines) == "ValueError: no weights for lm_head"
    assert last_exception(lines[-2:]) is None


def test_a_process_is_heard_after_it_has_started(capfd):
    """What it prints later is still shown, each where it belongs."""
    code = "import sys; input(); print('later', file=sys.stderr); print('beside')"
    with overhear() as heard:
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    print("of this process", file=sys.stderr)
    child.communicate(b"\n")
    for thread in heard.threads:
        thread.join(10)
    assert capfd.readouterr() == ("beside\n", "of this process\nlater\n")
    assert {"later", "beside"} <= set(heard.lines)
