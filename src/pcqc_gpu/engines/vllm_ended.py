"""vLLM's own process has ended: who waits for it is told, and told why.

What is read of vLLM's client here has no public name (0.32.0).
"""

import functools
import time
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from contextlib import suppress
from threading import Thread
from typing import Any

from pcqc_base.errors import UserError

PAUSE = 0.5  # seconds between two looks


def end_calls(client: Any) -> None:
    """Have calls that wait for vLLM's process fail once it has ended.

    vLLM notices the end and refuses what is asked from then on. A call under way would wait for
    ever: a process that was killed sends nothing, and the thread that reads from it just stops.

    Args:
        client: the engine's `engine_core`, where that is a process of its own.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    if not hasattr(client, "resources"):
        return  # beside an engine within this process vLLM begins no other process
    resources, steps, utilities = client.resources, client.outputs_queue, client.utility_results

    def watch() -> None:
        while not resources.engine_dead:  # set by `close` too
            time.sleep(PAUSE)
        steps.put(EngineDeadError())
        for future in list(utilities.values()):
            with suppress(InvalidStateError):
                future.set_exception(EngineDeadError())

    Thread(target=watch, daemon=True).start()


def says_why(method: Callable) -> Callable:
    """A method of `VllmEngine` that raises a UserError with the cause where the process ended."""

    @functools.wraps(method)
    def call(engine: Any, *arguments: Any, **named: Any) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            return method(engine, *arguments, **named)
        except EngineDeadError:
            processes = engine.llm.llm_engine.engine_core.resources.engine_manager
            ended = EngineDeadError(processes.finished_procs())  # name -> exit status
            why = engine.starting.heard.cause(ended)
            raise UserError(f"vLLM ended; run again to go on from the last state: {why}") from None

    return call
