"""Scenarios over nested records, in process."""

from typing import Any

from tidemark import Pipeline, bounded, collect, count, field, tumbling
from tidemark.testing import InProcess

T = 1_700_000_000_000


def pipeline() -> Pipeline:
    made = Pipeline("nested")
    rows = made.source(
        "in",
        schema={"meta": {"at": field("@at", int)}, "n": field("n", int, lenient=True), "k": str},
        event_time="meta.at",
        watermark=bounded("1s"),
    )

    def doubled(row: dict[str, Any]) -> dict[str, Any]:
        pair = {"n": row["n"], "both": [{"n": row["n"]}, None]}
        return {"pair": pair if row["n"] < 9 else {"m": 1}}

    pairs = rows.apply(doubled, columns={"pair": {"n": int, "both": [{"n": int}]}})
    pairs.filter(field("pair.n") > 0).key_by("k").window(tumbling("10s")).aggregate(
        rows=count(), pairs=collect("pair")
    ).to("out")
    return made


def test_time_moves_at_a_nested_place_and_functions_make_structs():
    with InProcess(pipeline()) as run:
        run.send("in", *({"meta": {"@at": T}, "n": n, "k": "a"} for n in ("2.0", 9, -1)))
        run.advance("in", T + 20_000)
        pair = {"n": 2, "both": [{"n": 2}, None]}
        run.expect_panes("out", {"k": "a", "rows": 1, "pairs": [pair]})
        (letter,) = run.dead_letters()
        assert letter["stage"] == "apply(doubled)"
        assert letter["reason"].startswith("TypeError: column 'pair': {'m': 1} is a dict, not Str")
