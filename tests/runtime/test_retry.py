"""Loops with a pause and a deadline."""

import pytest

from tidemark.runtime.retry import poll, retry


class PassingError(Exception):
    pass


def failing(*errors):
    """Return a call that raises each error once, then returns "done"."""
    left = list(errors)

    def call():
        if left:
            raise left.pop(0)
        return "done"

    return call


def passes(error):
    return isinstance(error, PassingError)


def test_a_call_is_repeated_while_its_errors_pass_by_themselves():
    seen: list[BaseException] = []
    errors = PassingError("a"), PassingError("b")
    assert retry(failing(*errors), passes, for_s=5, on_wait=seen.append) == "done"
    assert seen == list(errors)


def test_an_error_that_does_not_pass_is_raised_at_once():
    with pytest.raises(ValueError, match="bad"):
        retry(failing(ValueError("bad")), passes, for_s=5)


def test_after_the_deadline_the_last_error_is_raised():
    with pytest.raises(PassingError, match="first"):
        retry(failing(PassingError("first")), passes, for_s=-1)


def test_a_wait_can_be_ended_from_outside():
    def stop(_error):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retry(failing(PassingError()), passes, for_s=5, on_wait=stop)


def test_polling_ends_when_it_happened_or_with_the_deadline():
    answers = iter([False, False, True])
    assert poll(lambda: next(answers), for_s=5)
    assert not poll(lambda: False, for_s=-1)
