import pytest

from tests.chaos.supervising import adds_up


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("p.ingest records=10 passed=6 filtered=1 dead=2 blank=1 lag=0", True),
        ("p.ingest records=11 passed=6 filtered=1 dead=2 blank=1 lag=0", False),
        ("p.windowing a.rows=5 a.accepted=3 a.late=2 b.rows=1 b.accepted=1 b.late=0 lag=3", True),
        ("p.windowing a.rows=5 a.accepted=3 a.late=2 b.rows=2 b.accepted=1 b.late=0 lag=3", False),
        ("p.windowing rows=5 accepted=4 late=2 panes=7 clock=- lag=3", False),
        ("p.ingest was given p-moves/0 from 0", True),
    ],
)
def test_the_counts_of_a_line_add_up_or_not(line, right):
    assert adds_up(line) == right
