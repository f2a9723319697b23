"""What the pipeline of pops makes of records, row by row."""

from collections import Counter
from collections.abc import Iterable

T = 1_700_000_000_000
END = T + 3_600_000


def expected_results(
    records: Iterable[tuple[int, str, int]],
) -> tuple[
    dict[tuple[str, int], int], dict[tuple[str, int], int], dict[str, list[tuple[int, int]]]
]:
    """Judge row by row: windows, sessions, and the raw positions of late rows."""
    windows: Counter[tuple[str, int]] = Counter()
    times: dict[str, list[int]] = {}
    late: dict[str, list[tuple[int, int]]] = {"pops": [], "sessions": []}
    offset, watermark = {0: 0, 1: 0}, {0: 0, 1: 0}
    for partition, key, at in records:
        start = at // 10_000 * 10_000
        if start + 15_000 <= watermark[partition]:
            late["pops"].append((partition, offset[partition]))
        elif at < END:
            windows[key, start] += 1
        if at + 5_000 < watermark[partition]:
            late["sessions"].append((partition, offset[partition]))
        elif at < END:
            times.setdefault(key, []).append(at)
        watermark[partition] = max(watermark[partition], at - 2_000)
        offset[partition] += 1
    return dict(windows), _sessions(times), late


def _sessions(times: dict[str, list[int]]) -> dict[tuple[str, int], int]:
    sessions: Counter[tuple[str, int]] = Counter()
    for key, events in times.items():
        start = end = -1
        for at in sorted(events):
            start = start if at < end else at
            end = at + 5_000
            sessions[key, start] += 1
    return dict(sessions)
