"""The pipeline of pops in a process that has no rights, where TEST_NOBODY is set.

Root gives them up here, before anything but code was touched.  The interpreter may lie where only
root can reach it, and loads some of its parts when they are first needed: so they are before.
"""

import os

from tests.kafka.pipelines.pops import build, pipeline
from tidemark.embedded.processes import die_with_parent
from tidemark.local.run import LocalRun

__all__ = ["NOBODY", "build", "pipeline"]

NOBODY = 65_534

if os.environ.get("TEST_NOBODY") and os.geteuid() == 0:
    "".encode("idna")  # for names of hosts
    list(LocalRun(build("warm").plan()).run({"warm-moves": [b'{"player":"a","at":1,"score":1}']}))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    die_with_parent()  # another user would not
