"""Which calls the watchdog ends, by the clock that the test holds."""

import time

from tidemark.runtime.service.watchdog import Watchdog


class Brokers:
    """Brokers that answer or not, and the calls that were ended."""

    def __init__(self) -> None:
        self.answer = True
        self.ended: list[float] = []
        self.watchdog = Watchdog(lambda: self.answer, self.ended.append)

    def look(self, *after_s: float) -> list[float]:
        """Look these seconds after now; return how long the calls had lasted that were ended."""
        now_s = time.monotonic()
        for later_s in after_s:
            self.watchdog.look(now_s + later_s)
        return [round(lasted_s) for lasted_s in self.ended]


def test_a_call_that_hangs_while_brokers_answer_is_ended():
    brokers = Brokers()
    with brokers.watchdog.call():
        assert brokers.look(5, 10, 39) == []
        assert brokers.look(40) == [40]


def test_a_call_may_wait_for_brokers_as_long_as_that_takes():
    brokers = Brokers()
    with brokers.watchdog.call():
        brokers.answer = False
        assert brokers.look(20, 600) == []
        brokers.answer = True
        assert brokers.look(602, 630) == []
        assert brokers.look(632) == [632]


def test_what_came_back_is_no_part_of_the_next_call():
    brokers = Brokers()
    with brokers.watchdog.call():
        assert brokers.look(20) == []
    assert brokers.look(60) == []
    with brokers.watchdog.call():
        assert brokers.look(70, 90) == []
