"""Which letters a command is about."""

import pytest

from tests.runtime.letters.samples import NOW, stored
from tidemark.errors import ConfigurationError
from tidemark.runtime.letters.selection import (
    Selection,
    edited,
    moment_ms,
    offset_range,
    require_names,
)


@pytest.mark.parametrize(
    ("fits", "fails"),
    [
        ({}, {"ids": frozenset({6})}),
        ({"ids": frozenset({5})}, {"ids": frozenset({4}), "places": frozenset({"t/0/8"})}),
        ({"ids": frozenset({9}), "places": frozenset({"t/0/7"})}, {"topic": "T"}),
        ({"reason": "COLUMN A"}, {"reason": "column b"}),
        ({"stage": "parse"}, {"stage": "pars"}),
        ({"topic": "t", "key": "k"}, {"key": "K"}),
        ({"offsets": (7, 7)}, {"offsets": (8, 9)}),
        ({"since_ms": NOW, "until_ms": NOW + 1}, {"until_ms": NOW}),
        ({"since_ms": NOW - 1}, {"since_ms": NOW + 1}),
    ],
)
def test_every_option_must_fit(fits, fails):
    assert Selection(**fits).fits(stored())
    assert not Selection(**{**fits, **fails}).fits(stored())


def test_a_stage_names_an_operator_without_its_arguments():
    explode = stored(stage="explode(items)")
    assert Selection(stage="explode").fits(explode)
    assert Selection(stage="explode(items)").fits(explode)
    assert not Selection(stage="expl").fits(explode)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("7", (7, 7)),
        ("7..9", (7, 9)),
        ("7..", (7, 2**63 - 1)),
        ("..9", (0, 9)),
    ],
)
def test_ranges_of_offsets(text, expected):
    assert offset_range(text) == expected


@pytest.mark.parametrize("text", ["", "..", "a", "7.9", "7-9", "-1"])
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"not a range such as 7, 7\.\.9"):
        offset_range(text)


def test_moments_are_ages_or_instants():
    assert moment_ms("2h", "--since", NOW) == NOW - 7_200_000
    assert moment_ms("2026-03-01T13:00:00+01:00", "--since", 0) == NOW
    assert moment_ms("2026-03-01T12:00:00", "--since", 0) == NOW
    assert moment_ms("2038-11-10T16:57:35.627Z", "--since", 0) == 2_173_021_055_627
    assert moment_ms(None, "--since", 0) is None
    with pytest.raises(ConfigurationError, match="--until 'soon' is neither an age"):
        moment_ms("soon", "--until", NOW)


def test_letters_are_named_by_number_or_by_the_place_of_their_record():
    ids, places = require_names(["7", "a.b/0/012"])
    assert (set(ids), set(places)) == ({7}, {"a.b/0/12"})
    for wrong in ("a/0", "-1", "a/0/-1", ""):
        with pytest.raises(ConfigurationError, match="is neither a number"):
            require_names([wrong])


def test_settings_are_fields_with_values():
    assert edited(["a=1", "b.c=x=y", "d="]) == {"a": "1", "b.c": "x=y", "d": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(ConfigurationError, match="is not FIELD=VALUE"):
            edited(wrong)
