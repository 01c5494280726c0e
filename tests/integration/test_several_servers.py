"""Several servers of one model: who is asked, and what happens where one dies or comes back."""

import threading
import time

import pytest
from helpers import model_folder
from stub_server import completion

from pcqc.engines.base import Completion, Request, Sampling
from pcqc_base.errors import UserError
from pcqc_gpu.engines.replicas import Replica

STOP = 7
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=4, stop=(STOP,))


def by_prompt(body, attempt):
    """What every server of a model answers to a request."""
    return completion([(body["prompt"][0] + body["seed"]) % 50 + 10, STOP])


class SlowlyRead(Replica):
    """Between reading how often it was asked and the choice, other threads choose too."""

    @property
    def asked(self):
        asked = self.__dict__["asked"]
        time.sleep(0.01)
        return asked

    @asked.setter
    def asked(self, value):
        self.__dict__["asked"] = value


def test_requests_go_to_all_servers_of_a_model(serve):
    """To whichever has fewest in progress: all but what the slow one holds go to the other."""
    both, slow_may, fast_may = threading.Barrier(5), threading.Event(), threading.Event()

    def held(until):
        def reply(body, attempt):
            if not until.is_set():
                both.wait(10)
                until.wait(10)
            return by_prompt(body, attempt)

        return serve(reply)

    slow, fast = held(slow_may), held(fast_may)
    engine = slow.engine(replicas=(fast.url,), timeout_seconds=30.0, concurrent=2)
    for replica in engine.replicas.all:
        replica.__class__ = SlowlyRead
    requests = [Request((n,), (2 * n,)) for n in range(1, 13)]
    tickets = [engine.submit(request, SAMPLING) for request in requests]
    both.wait(10)
    assert (len(slow.bodies), len(fast.bodies)) == (2, 2)
    fast_may.set()
    results: dict[int, list] = {}
    while len(results) < 10:
        results |= engine.collect(wait=True)
    assert (len(slow.bodies), len(fast.bodies)) == (2, 10)
    slow_may.set()
    while len(results) < 12:
        results |= engine.collect(wait=True)
    alone = serve(by_prompt).engine().generate(requests, SAMPLING)
    assert [results[ticket] for ticket in tickets] == alone


@pytest.mark.slow
def test_one_of_two_servers_dies_in_an_update_and_nothing_is_lost(serve):
    """Same samples as of one server alone; the other is asked for what the dead one dropped."""
    wanted = [Request((n,), (2 * n, 2 * n + 2)) for n in range(60)]
    alone = serve(by_prompt).engine().generate(wanted, SAMPLING)
    dying, other = (serve(lambda *of: by_prompt(*of)) for _ in range(2))

    def dies(body, attempt):
        if len(dying.bodies) == 20:
            threading.Thread(target=dying.close).start()
        return by_prompt(body, attempt) if len(dying.bodies) < 20 else None

    dying.reply = dies
    engine = dying.engine(replicas=(other.url,), concurrent=4, timeout_seconds=5.0)
    assert engine.generate(wanted, SAMPLING) == alone
    counts = engine.take_faults()
    assert (counts["failures"], counts["down"]) == (0, 1)
    assert counts["retries"] >= 1
    before = len(dying.bodies)
    assert engine.generate(wanted, SAMPLING) == alone
    engine.wake()
    assert len(dying.bodies) == before
    assert engine.take_faults() == {"retries": 0, "failures": 0, "down": 1}


def test_a_server_that_is_back_is_asked_again_if_it_has_the_roles_weights(serve, tmp_path):
    first, second = serve(by_prompt), serve(by_prompt)
    engine = first.engine(replicas=(second.url,))
    own, other = (model_folder(tmp_path / name, seed) for seed, name in enumerate(("own", "other")))
    engine.check_weights(own)
    wanted = [Request((n,), (2,)) for n in range(20)]
    engine.replicas.all[1].down = True
    engine.generate(wanted, SAMPLING)
    assert not second.bodies
    engine.wake()
    asked = threading.Event()
    first.reply = lambda *of: by_prompt(*of) if asked.wait(10) else None
    second.reply = lambda *of: asked.set() or by_prompt(*of)
    engine.generate(wanted, SAMPLING)
    assert second.bodies
    engine.replicas.all[1].down = True
    second.served["root"] = str(other)
    with pytest.raises(UserError, match=f"{second.url}: serves {other}, whose weights are not"):
        engine.wake()


def test_a_run_starts_with_those_that_answer(serve):
    first, second = serve(by_prompt), serve(by_prompt)
    second.close()
    engine = second.engine(replicas=(first.url,))
    assert isinstance(engine.generate([Request((1,), (2,))], SAMPLING)[0][0], Completion)
    assert engine.take_faults()["down"] == 1
    first.close()
    with pytest.raises(UserError, match=rf"{first.url}: it serves no model"):
        second.engine(replicas=(first.url,))


def other_answer(body, attempt):
    """What a server of other weights would answer."""
    return completion([3, STOP])


def test_none_is_asked_before_it_is_known_to_have_the_roles_weights(serve, tmp_path):
    """One that is back, with another model, is met first where the others have just failed."""
    first, second = serve(by_prompt), serve(other_answer)
    engine = first.engine(replicas=(second.url,), attempts=2, timeout_seconds=0.5)
    own, other = (model_folder(tmp_path / name, seed) for seed, name in enumerate(("own", "other")))
    engine.check_weights(own)
    engine.replicas.all[1].down = True
    second.served["root"] = str(other)
    assert engine.generate([Request((1,), (2,))], SAMPLING)[0][0].tokens != [3, STOP]
    first.reply = lambda body, attempt: None
    with pytest.raises(UserError, match=f"{second.url}: serves {other}, whose weights are not"):
        engine.generate([Request((1,), (2,))], SAMPLING)
    assert not second.bodies


def test_where_all_have_failed_once_the_one_that_answers_again_gets_all(serve):
    dead, alive = serve(by_prompt), serve(by_prompt)
    dead.close()
    engine = dead.engine(replicas=(alive.url,), timeout_seconds=1.0, attempts=5)
    alive.reply = lambda body, attempt: None if len(alive.bodies) == 1 else by_prompt(body, attempt)
    assert isinstance(engine.generate([Request((0,), (2,))], SAMPLING)[0][0], Completion)
    wanted = [Request((n,), (2 * n,)) for n in range(20)]
    results = engine.generate(wanted, SAMPLING)
    assert results == serve(by_prompt).engine().generate(wanted, SAMPLING)
    assert engine.take_faults() == {"retries": 2, "failures": 0, "down": 1}


def test_a_connection_that_is_dropped_does_not_take_its_server_away(serve):
    first, second = serve(by_prompt), serve(by_prompt)
    engine = first.engine(replicas=(second.url,))
    first.drop_next = True
    engine.generate([Request((n,), (2,)) for n in range(4)], SAMPLING)
    assert engine.take_faults() == {"retries": 1, "failures": 0, "down": 0}
