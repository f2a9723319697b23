"""The CPU time of a process that runs, from /proc."""

import os
from pathlib import Path


def used_s(pid: int) -> float:
    """Return the CPU seconds that a process has used, without those of its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
