"""Known ends of Spark's processes are one line; a restart may help."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from tidemark.errors import InfrastructureError, StateError
from tidemark.spark.replay.replay import one_line_errors

_TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
java.lang.Exception: {}
\tat org.apache.spark.api.python.BasePythonRunner.scala:624)
Caused by: java.io.EOFException
"""


@pytest.mark.parametrize(
    "error",
    [
        PySparkException(_TRACE.format("Python worker exited unexpectedly (crashed)")),
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
    ids=["worker", "jvm", "jvm, later"],
)
def test_a_killed_process_is_one_line_and_no_fault_of_the_state(error):  # B9
    said = r"^Spark: .* ended.*it was killed"
    with pytest.raises(InfrastructureError, match=said) as ended, one_line_errors():
        raise error
    assert "\n" not in str(ended.value)


def test_an_error_of_a_task_stays_an_error_of_the_state():
    with pytest.raises(StateError, match="no such column"), one_line_errors():
        raise PySparkException("tidemark.errors.StateError: no such column\n")
