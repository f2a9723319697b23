"""The CPU time and the memory of a process that runs, from /proc."""

import os
from pathlib import Path


def used_s(pid: int) -> float:
    """Return the CPU seconds that a process has used, without those of its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had so far, bytes; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(found.split()[1]) * 2**10
