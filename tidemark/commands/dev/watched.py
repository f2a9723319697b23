"""The source files of a pipeline: which they are, when they change, and how they load again."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tidemark.language.load import pipeline_module


class WatchedFiles:
    """The module of a pipeline, and the modules of its folder that it imports."""

    def __init__(self, pipeline: str) -> None:
        """Load the pipeline's module.

        Raises:
            PipelineError: the module does not exist, or fails.
        """
        # Python takes old bytecode if a file has the same size and the same second as before.
        sys.dont_write_bytecode = True
        self._pipeline = pipeline
        module = pipeline_module(pipeline)
        self._folder = Path(module.__file__ or ".").resolve().parent
        self._seen = self._times()

    def have_changed(self) -> bool:
        """Return whether a file was written, or has gone, since the last time this was asked."""
        before, self._seen = self._seen, {path: _written_ns(path) for path in self._seen}
        return before != self._seen

    def load_again(self) -> None:
        """Load all of them as they are now.

        Raises:
            PipelineError: the module fails; names file and line.
        """
        for name, _ in list(self._modules()):
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            pipeline_module(self._pipeline)
        finally:
            self._seen = {**self._seen, **self._times()}

    def _times(self) -> dict[Path, int]:
        return {path: _written_ns(path) for _, path in self._modules()}

    def _modules(self) -> Iterator[tuple[str, Path]]:
        """Yield name and file of the modules of the folder, except packages installed in it."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name == "__main__" or file is None or "site-packages" in Path(file).parts:
                continue
            path = Path(file).resolve()
            if path.is_relative_to(self._folder):
                yield name, path


def _written_ns(path: Path) -> int:
    """Return when a file was last written, -1 if it is not there, as while it is saved."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return -1
