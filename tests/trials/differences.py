"""What a trial expects and does not find."""

from tests.trials.trial import Seen


def differences(expected, seen: Seen, spec):
    """Tell what a trial expects and does not find."""
    if "any_of" in expected:
        tried = [list(differences(each, seen, spec)) for each in expected["any_of"]]
        if all(tried):
            yield from (line for lines in tried for line in lines)
        return
    yield from _panes(expected, seen, spec)
    if "open_at_end" in expected:
        yield from _same("open", expected["open_at_end"], seen.open_panes)
    yield from _counts(expected, seen)
    for wanted in expected.get("late_records", ()):
        if not any(wanted.items() <= row.items() for row in seen.late):
            yield f"late: no {wanted} in {seen.late}"


def _counts(expected, seen):
    for name, got in (
        ("late", len(seen.late)),
        ("future_records", len(seen.rejected)),
        ("rejected", len(seen.rejected)),
        ("tombstones", seen.blank),
    ):
        if expected.get(name, got) != got:
            yield f"{name}: expected {expected[name]}, got {got}"
    if "reject_reason_names" not in expected:
        return
    for letter in seen.rejected:
        if not any(word in letter.reason for word in ("unit", "range", "future")):
            yield f"rejected: {letter.reason!r} names no unit and no range"


def _panes(expected, seen, spec):
    wanted = list(expected.get("windows", expected.get("query", ())))
    for each in expected.get("sessions", ()):
        bounds = {"start": each["first"], "end": each["last"] + spec["gap_ms"]}
        wanted.append({**bounds, **{n: each[n] for n in ("key", "count", "sum")}})
    extra = expected.get("and", {})
    if isinstance(extra, dict):
        wanted += extra.get("any_of", [])[:1]
    yield from _same("windows", wanted, seen.panes)


def _same(what, wanted, panes):
    left = list(panes)
    for each in wanted:
        facts = {name: value for name, value in each.items() if name != "rows"}
        found = [pane for pane in left if _holds(facts, pane)]
        if len(found) != 1:
            yield f"{what}: expected {facts} once, found {len(found)} times"
            continue
        left.remove(found[0])
    for pane in left:
        yield f"{what}: unexpected {pane}"


def _holds(facts, pane):
    """Compare with types: a key of false is not one of 0."""
    return all(
        pane[name] == value and type(pane[name]) is type(value) for name, value in facts.items()
    )
