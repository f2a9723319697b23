"""The depth of many texts at once against the depth of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.serde.nesting import MAX_NESTING, any_nested_too_deep, nested_too_deep

NEAR = st.integers(MAX_NESTING - 2, MAX_NESTING + 2)
PIECES = st.sampled_from([b"[", b"{", b"]", b"}", b'"[{"', b"[]", b"x" * 40]) | NEAR.flatmap(
    lambda depth: st.sampled_from([b"[" * depth, b'{"a":' * depth, b"[]" * depth, b"{" * depth])
)
TEXTS = st.lists(st.lists(PIECES, max_size=4).map(b"".join), max_size=5)


@given(TEXTS)
def test_many_texts_are_judged_as_each_alone(texts):
    longest = max(map(len, texts), default=0)
    assert any_nested_too_deep(texts, longest) == any(map(nested_too_deep, texts))


@pytest.mark.parametrize("size", [100, 20_000])
@pytest.mark.parametrize("at", [0, 999, 1_000, 2_499])
def test_one_deep_text_is_found_wherever_it_is(at, size):
    texts = [b'{"a":"' + b"x" * size + b'"}'] * 2_500
    assert not any_nested_too_deep(texts, len(texts[0]))
    texts[at] = b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1)
    assert any_nested_too_deep(texts, max(map(len, texts)))
