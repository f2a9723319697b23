"""What a refusal of ingest says: docs/operations.md, "The program of ingest"."""

from tidemark.plan.changes import Change
from tidemark.runtime.client.recorded_program import refusal

ROWS = Change("in output a, the choice of rows", "all rows", "filter", outputs=("a",))
COLUMN = Change("in output b, the column w", "not in all rows of its log", "read", outputs=("b",))
KEPT = "Nothing was written, so the earlier pipeline can go on."


def test_one_change_is_one_line():
    (line,) = refusal([ROWS]).splitlines()
    assert line.startswith(
        "the pipeline has changed: in output a, the choice of rows was all rows, is now filter. "
        f"{KEPT} 'tidemark reset PIPELINE --operator a' starts"
    )


def test_several_changes_have_a_line_each():
    first, rows, column, kept = refusal([ROWS, COLUMN]).splitlines()
    assert first == "the pipeline has 2 changes:"
    assert rows == "  in output a, the choice of rows was all rows, is now filter"
    assert column == "  in output b, the column w was not in all rows of its log, is now read"
    assert kept.startswith(f"  {KEPT} 'tidemark reset PIPELINE --operator a --operator b' starts")
