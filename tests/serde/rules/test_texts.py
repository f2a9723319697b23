"""Rules as text: which conditions and members are allowed, and what the errors say."""

import json

import polars as pl
import pytest

from tests.support.patterns.rule_texts import HOT, SMOKE, text
from tidemark.errors import PipelineError
from tidemark.serde.rules.condition_text import condition_of
from tidemark.serde.rules.document import pattern_of

COLUMNS = {"kind": pl.String(), "at": pl.Int64(), "celsius": pl.Float64(), "small": pl.Int8()}
ROWS = pl.DataFrame(
    {"kind": ["a", None], "at": [10, 20], "celsius": [81.0, 5.0], "small": [100, 1]}, schema=COLUMNS
)
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("celsius > 80 and kind in ['a', 'b']", [True, False]),
        ("10 < celsius <= 80 or not is_null(kind)", [True, False]),
        ("col('celsius') * 2 > at / 5 + 159", [True, False]),
        ("true", [True, True]),
        ("kind not in ('a',)", [False, None]),
        ("kind == 'a' or false", [True, None]),
        ("-celsius < -6 and kind != 'b'", [True, False]),
        ("small * 100 > 5000", [True, False]),
        ("small < 300", [True, True]),
        ("small in [100, -1]", [True, False]),
    ],
)
def test_a_condition_is_an_expression_of_columns(condition, wanted):
    found = condition_of(condition, COLUMNS).alias("found")
    assert ROWS.with_columns(found)["found"].to_list() == wanted


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("celsius", "is a number: a condition is true or false"),
        ("celsius =", "is no condition"),
        ("", "is no condition"),
        ("kind is None", "write is_null"),
        ("kind == None", "write true, false, or is_null(column)"),
        ("__import__('os').system('x')", "this form is not allowed"),
        ("(lambda: true)()", "this form is not allowed"),
        ("[each for each in kind]", "this form is not allowed"),
        ("kind.upper() == 'A'", "this form is not allowed"),
        ("celsius ** 9 > 1", "this form is not allowed"),
        ("celsius > 1e999", "the number is too large"),
        (f"at > {2**63}", "the number is larger than"),
        ("hot.celsius > 3", "'hot' is no step here"),
        ("kind in 'abc'", "in takes a list of values"),
        ("kind in [1]", "it is a number, and compared with a text"),
        ("celsius and true", "and, or and not combine conditions"),
        ("kind + 1 > 2", "it is a text, and not a number"),
        ("not " * 60 + "true", "nested more than 40 deep"),
        ("x" * 2_001, "has 2,001 characters"),
    ],
)
def test_other_conditions_are_refused(condition, message):
    with pytest.raises(PipelineError) as refusal:
        condition_of(condition, COLUMNS)
    assert message in str(refusal.value)


def test_a_rule_says_all_that_a_pattern_says():
    steps = [
        HOT,
        {"never": "kind == 'water'"},
        {
            **SMOKE,
            "on": "at > hot.at",
            "times": [2, None],
            "contiguity": "next",
            "between": "followed_by_any",
            "greedy": True,
            "until": "celsius < 0",
        },
        {"never": "celsius < 5"},
    ]
    found = pattern_of(text(*steps, skip={"to_last": "smoke"}), COLUMNS, HOUR_MS)
    hot, smoke = found.steps
    assert (hot.name, hot.least, hot.most, hot.never) == ("hot", 1, 1, ())
    assert (smoke.least, smoke.most, smoke.after, smoke.between) == (
        2,
        None,
        "next",
        "followed_by_any",
    )
    assert smoke.greedy
    assert smoke.on is not None
    assert smoke.on.meta.eq(pl.col("at") > pl.col("hot.at"))
    assert smoke.until is not None
    assert smoke.until.meta.eq(pl.col("celsius") < 0)
    assert [each.meta.root_names() for each in (*smoke.never, *found.never)] == [
        ["kind"],
        ["celsius"],
    ]
    assert (found.within_ms, found.skip.to, found.skip.step) == (600_000, "to_last", "smoke")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("[]", "not JSON of version 1"),
        ("{}", "missing required field `version`"),
        ('{"version": 2}', "version: 2 is unknown; write 1"),
        (text(colour="red"), "unknown field `colour`"),
        (text({"name": "a"}), "steps[0]: a step has name and where"),
        (text({"never": "true"}), "steps: the first one is a step"),
        (text(HOT, {"never": "true", "name": "x"}), "a part with never has no other member"),
        (text({**HOT, "times": "3"}), "$.steps[0].times"),
        (text({**HOT, "times": [0, 0]}), "the maximum 1 or more"),
        (text({**HOT, "name": "last"}), "steps[0].name: 'last' is not allowed"),
        (text(HOT, HOT), "come twice"),
        (text(within="0s"), "within: '0s' is not longer than 0"),
        (text(within="2h"), "within: 2h is longer than 1h"),
        (text(skip={"to_first": "hot"}), "it can have the first row of a match"),
        (text(skip={}), "skip: it is"),
        (text(HOT, {**SMOKE, "on": "celsius > cold.celsius"}), "'cold' is no step here"),
        (text({**HOT, "on": "celsius > smoke.celsius"}, SMOKE), "'smoke' is no step here"),
        (text(*[{**HOT, "name": f"s{n}"} for n in range(21)]), "has 21 steps"),
        (json.dumps({"version": 1, "x": "y" * 100_000}), "at most 100,000 are allowed"),
    ],
)
def test_other_rules_are_refused(rule, message):
    with pytest.raises(PipelineError) as refusal:
        pattern_of(rule, COLUMNS, HOUR_MS)
    assert message in str(refusal.value)
