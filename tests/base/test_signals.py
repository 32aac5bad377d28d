"""Signals are handled for a while, and then as before."""

import signal
import threading

import pytest

from varnet.base.signals import give_back, handled, preemption_signal, termination_interrupts


@pytest.fixture
def ours():
    """A handler of the test's own for SIGTERM, and what it got."""
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: got.append(number))
    yield got
    signal.signal(signal.SIGTERM, before)


def test_a_handler_is_replaced_and_put_back(ours):
    seen = []
    handler = signal.getsignal(signal.SIGTERM)
    with handled(lambda number, before: seen.append((number, before[number])), (signal.SIGTERM,)):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert seen == [(signal.SIGTERM, handler)] and ours == [signal.SIGTERM]


def test_a_handler_is_put_back_after_an_error(ours):
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyError), handled(lambda *_: None):
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) is handler


def test_the_second_signal_goes_where_it_went_before(ours):
    seen = []

    def act(number: int, before: dict) -> None:
        seen.append(number)
        give_back(number, before)

    with handled(act, (signal.SIGTERM,)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert len(seen) == len(ours) == 1


def test_outside_of_the_main_thread_nothing_changes(ours):
    handler, found = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with handled(lambda *_: None):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [handler]


def test_sigterm_is_a_ctrl_c(ours):
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert ours == []


def test_the_signal_of_a_preemption(monkeypatch):
    monkeypatch.delenv("SUBMITIT_EXECUTOR", raising=False)
    assert preemption_signal() is None
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "local")
    monkeypatch.delenv("SUBMITIT_PREEMPT_SIGNAL", raising=False)
    assert preemption_signal() == signal.SIGUSR2
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", "USR1")
    assert preemption_signal() == signal.SIGUSR1
