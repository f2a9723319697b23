"""The memory budget, as a setting."""

import pytest

from tidemark.errors import ConfigurationError
from tidemark.runtime.config import Config


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512MiB", 512 * 2**20),
        ("1 gib", 2**30),
        ("400000KiB", 400_000 * 2**10),
        ("536870912", 2**29),
    ],
)
def test_the_budget_is_a_size(text, size_bytes, monkeypatch):
    monkeypatch.setenv("TIDEMARK_MEMORY", text)
    assert Config.from_env().memory_bytes == size_bytes


@pytest.mark.parametrize("text", ["512", "256MiB", "512MB", "much", "-1", "1.5GiB"])
def test_a_size_that_is_none_or_too_small_is_refused(text, monkeypatch):
    monkeypatch.setenv("TIDEMARK_MEMORY", text)
    with pytest.raises(ConfigurationError, match="TIDEMARK_MEMORY"):
        Config.from_env()
