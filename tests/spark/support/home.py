"""A home for Spark whose executors are processes."""

from pathlib import Path

import pyspark


def spark_home(folder: Path) -> Path:
    """Return a home for Spark, which executors leave their files in."""
    home = folder / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home
