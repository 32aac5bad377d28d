"""Who is silent while the others wait: told by a store that all write to, with a clock of the test's own."""

import pytest

from varnet.base.silence import Watch
from varnet.errors import RankLost


class Store(dict):
    """Of torch, as far as it is used."""

    set = dict.__setitem__

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def get(self, key: str) -> str:
        return self[key]


class Ranks:
    """Some ranks in one process, all but those that are stopped looking every ten seconds."""

    def __init__(self, size: int):
        self.now, self.stopped, self.said = 0.0, set(), []
        store = Store()
        self.watches = [
            Watch(store, rank, size, 7200.0, lambda text, rank=rank: self.said.append((rank, text)), lambda: self.now)
            for rank in range(size)
        ]

    def after(self, seconds: float) -> list[tuple[int, str]]:
        """What is said in the next seconds, and by whom."""
        self.said.clear()
        for _ in range(int(seconds / 10)):
            self.now += 10
            for rank, watch in enumerate(self.watches):
                if rank not in self.stopped:
                    watch.look()
        return list(self.said)


def test_nothing_is_said_of_ranks_that_are_busy():
    ranks = Ranks(3)
    with ranks.watches[0].waiting(), ranks.watches[1].waiting():
        assert ranks.after(7000) == []


def test_a_silent_rank_is_named_once_by_the_first_that_waits_and_so_is_its_return():
    ranks = Ranks(3)
    with ranks.watches[0].waiting(), ranks.watches[2].waiting():
        ranks.after(20)
        ranks.stopped = {1}
        assert ranks.after(50) == []
        assert ranks.after(600) == [
            (0, "rank 1 is silent for 1 min: the others wait for up to 118 min more (patience_minutes)")
        ]
        ranks.stopped = set()
        assert ranks.after(100) == [(0, "rank 1 is back")]


def test_the_first_rank_may_be_the_silent_one():
    ranks = Ranks(3)
    with ranks.watches[1].waiting(), ranks.watches[2].waiting():
        ranks.after(20)
        ranks.stopped = {0}
        (said,) = ranks.after(600)
    assert said[0] == 1 and said[1].startswith("rank 0 is silent")


def test_who_was_stopped_itself_accuses_nobody():
    ranks = Ranks(2)
    with ranks.watches[0].waiting(), ranks.watches[1].waiting():
        ranks.after(20)
        ranks.stopped = {1}
        ranks.after(600)
        ranks.stopped = {0}  # the other wakes, and has not heard of the first for ten minutes
        assert ranks.after(30) == []


def test_the_end_of_the_waiting_names_who_was_silent():
    ranks = Ranks(2)
    with pytest.raises(RankLost, match=r"rank 1 is silent for 2 min: .* patience_minutes"), ranks.watches[0].waiting():
        ranks.stopped = {1}
        ranks.after(120)
        raise RuntimeError("Timed out")
    with pytest.raises(RuntimeError, match="reset"), Ranks(2).watches[0].waiting():
        raise RuntimeError("connection reset by peer")
