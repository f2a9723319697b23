"""The last words of a process, out of its log."""

from tidemark.embedded.processes import last_words


def test_the_last_error_comes_with_the_indented_lines_after_it(tmp_path):
    log = tmp_path / "ingest.log"
    assert last_words(log) == f"it wrote no log (all of it: {log})"
    log.write_text("10:00 INFO began\n10:01 INFO went on\n\n")
    assert last_words(log) == f"10:01 INFO went on (all of it: {log})"
    log.write_text("10:00 ERROR a\n  b\n10:01 ERROR two:\n  c\n  d\n10:02 INFO end\n  e\n")
    assert last_words(log) == f"10:01 ERROR two:\n  c\n  d (all of it: {log})"
