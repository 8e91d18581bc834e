"""A team of threads does every share of every run, whatever happens in one of them."""

import gc
import threading
import time

import numpy as np
import pytest

from sklearn_attn.objective import _threads
from sklearn_attn.objective._threads import ThreadTeam


@pytest.fixture
def team():
    team = ThreadTeam(4)
    yield team
    team.close()


def team_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("sklearn_attn")]


def assert_threads_end():
    gc.collect()
    deadline = time.monotonic() + 10.0
    while team_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not team_threads()


@pytest.mark.parametrize("pause", [0.0, 1e-3], ids=["watching", "asleep"])
def test_every_share_of_every_run_is_done_once_before_it_ends(team, pause):
    for _ in range(50):
        shares = np.zeros(4)

        def task(share, shares=shares):
            shares[share] += 1

        team.run(task)
        np.testing.assert_array_equal(shares, 1)
        time.sleep(pause)


def test_a_team_of_one_has_no_threads():
    team = ThreadTeam(1)
    callers = []
    team.run(lambda share: callers.append((share, threading.current_thread())))
    assert callers == [(0, threading.current_thread())]
    assert not team_threads()
    team.close()


@pytest.mark.parametrize("share", range(4))
def test_an_error_of_any_share_is_raised_after_the_others_ended(team, share):
    ended = []

    def task(this):
        if this == share:
            raise ZeroDivisionError(f"share {this}")
        time.sleep(0.01)
        ended.append(this)

    for _ in range(2):  # the team goes on
        with pytest.raises(ZeroDivisionError, match=f"share {share}"):
            team.run(task)
        assert sorted(ended) == [other for other in range(4) if other != share]
        ended.clear()


def test_an_interrupted_wait_does_not_mix_two_runs(team, monkeypatch):
    slow = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(team, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            team.run(lambda share: slow.wait(1.0) if share != 3 else None)
    slow.set()
    done = []
    team.run(done.append)
    assert sorted(done) == [0, 1, 2, 3]


def test_a_run_that_is_interrupted_as_it_begins_is_not_taken_for_the_next(team, monkeypatch):
    put, go_on = team._tasks.put, threading.Event()

    class Interrupting:
        """Takes two of the three tasks of a run."""

        def __init__(self):
            self.n_tasks = 0

        def put(self, task):
            self.n_tasks += 1
            if self.n_tasks == 3:
                raise KeyboardInterrupt
            put(task)

    with monkeypatch.context() as patch:
        patch.setattr(team, "_tasks", Interrupting())
        with pytest.raises(KeyboardInterrupt):
            team.run(lambda share: go_on.wait(10.0))
    go_on.set()
    done = []

    def task(share):
        time.sleep(0.2 if share != 3 else 0.0)
        done.append(share)

    team.run(task)
    assert sorted(done) == [0, 1, 2, 3]


def test_threads_end_where_closing_was_interrupted(monkeypatch):
    team = ThreadTeam(3)
    with monkeypatch.context() as patch:
        patch.setattr(_threads, "_end", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            team.close()
    assert len(team_threads()) == 2
    del team
    assert_threads_end()


def test_threads_end_with_the_team_even_if_it_is_not_closed():
    team = ThreadTeam(3)
    team.run(lambda share: None)
    assert len(team_threads()) == 2
    del team
    assert_threads_end()


def test_no_thread_is_left_if_not_all_can_start(monkeypatch):
    start, started = threading.Thread.start, []

    def start_two(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RuntimeError, match="start new thread"):
        ThreadTeam(5)
    for thread in started:
        thread.join(timeout=10.0)
        assert not thread.is_alive()


def test_closing_twice_is_harmless():
    team = ThreadTeam(2)
    team.close()
    team.close()
    assert not team_threads()
