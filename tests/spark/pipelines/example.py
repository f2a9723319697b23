"""An example as a pipeline of the tests: ``TEST_PIPELINE`` says which one."""

import os

from tidemark.language.load import load_pipeline
from tidemark.language.pipeline import Pipeline


def build(name: str) -> Pipeline:
    """Return the pipeline of an example."""
    return load_pipeline(f"examples.{name}")


pipeline = build(os.environ.get("TEST_PIPELINE", "game"))
