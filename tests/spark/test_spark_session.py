"""A Spark session that does not start."""

import os
import subprocess
import sys

START = """
from tidemark.spark.session import spark_session

with spark_session("local[1]", memory="512m"):
    pass
"""


def test_the_error_of_a_jvm_that_does_not_start_is_its_own():
    refused = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, "SPARK_SUBMIT_OPTS": "--add-modules=there.is.none"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.stdout == ""
    assert "Spark does not start: " in refused.stderr
    assert "Module there.is.none not found" in refused.stderr.splitlines()[-1]
