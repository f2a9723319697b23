"""``same()``: the windows of the results that the rows of a stream are."""

from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.window import Hopping, Same
from tidemark.errors import PipelineError
from tidemark.plan.logical import Node, Stage
from tidemark.plan.two_phases import windows_of_results

_WHAT = "window(same())"


def same_windows(node: Node) -> Hopping | Calendar | Same:
    """Return windows that hold the results of one window each.

    Raises:
        PipelineError: the rows are not results, or not results of the same aligned windows.
    """
    stages = [stage for _, stage in node.stages()]
    found = {stage.windowed.window for stage in stages if isinstance(stage, Stage)}
    if node.topics() or not all(isinstance(stage, Stage) for stage in stages):
        rows = "a source" if node.topics() else "distinct_by() or scan()"
        raise PipelineError(
            f"{_WHAT}: rows of {rows} have no window; use it on a stream of aggregate()"
        )
    if len(found) > 1:
        texts = ", ".join(sorted(str(each.label) for each in found))
        raise PipelineError(f"{_WHAT}: the rows are results of different windows: {texts}")
    (windows,) = found
    if not isinstance(windows, Hopping | Calendar | Same):
        raise PipelineError(
            f"{_WHAT}: {windows.label} has other windows for each key; only tumbling(), hopping() "
            "and calendar() have windows that keys share"
        )
    return windows_of_results(windows)
