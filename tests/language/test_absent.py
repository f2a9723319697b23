"""Methods that a kind of stream does not have: each error names the kind and the remedy."""

import copy

import pytest

from tests.support.mistakes import moves
from tidemark import PipelineError, absence, col, count, prev, tumbling
from tidemark.language.aggregated import AggregatedStream
from tidemark.language.joins.joined_stream import JoinedStream
from tidemark.language.keyed import KeyedStream
from tidemark.language.ordered import OrderedStream
from tidemark.language.patterns.matched_stream import MatchedStream
from tidemark.language.patterns.matches import Matches
from tidemark.language.stream import Stream
from tidemark.language.windowed import WindowedStream

KINDS = [Stream, KeyedStream, WindowedStream, AggregatedStream, OrderedStream, JoinedStream]
KINDS += [Matches, MatchedStream]


def _stream(kind):
    rows = moves()
    keyed = rows.key_by("player")
    windowed = keyed.window(tumbling("1m"))
    joined = keyed.join(keyed, within="1m")
    made = [rows, keyed, windowed, windowed.aggregate(n=count()), joined]
    matches = keyed.match(absence(of=col("vip"), for_="1m"))
    made += [keyed.scan(before=prev("at")), matches, matches.select()]
    return next(each for each in made if type(each) is kind)


def _methods(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


ALL = sorted(set().union(*map(_methods, KINDS)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_method_that_another_kind_has_names_the_kind_and_the_remedy(kind):
    stream = _stream(kind)
    for name in ALL:
        if name in _methods(kind):
            continue
        with pytest.raises(PipelineError, match=rf"^{name}: .* has no such method; ") as refused:
            getattr(stream, name)
        remedy = str(refused.value).partition("; ")[2]
        calls = ("key_by", "window", "aggregate", "join", "match", "select")
        assert any(f"{call}()" in remedy for call in calls), remedy


@pytest.mark.parametrize("name", ["filter", "join", "to", "window"])
def test_a_table_has_no_methods(name):
    table = moves().key_by("player").table(keep="1h")
    with pytest.raises(PipelineError, match=rf"^{name}: a table has no such method; join a stream"):
        getattr(table, name)


TABLE = [
    (Stream, "window", "window: a stream without a key has no such method; call key_by() first"),
    (OrderedStream, "scan", "scan: a stream without a key has no such method; call key_by() first"),
    (AggregatedStream, "aggregate", "a stream of results has no such method; call key_by() first"),
    (Stream, "first", "call first on the result of join()"),
    (Stream, "updates", "call updates on the result of aggregate()"),
    (KeyedStream, "unnest", "a keyed stream has no such method; use unnest before key_by()"),
    (KeyedStream, "key_by", "name all columns of the key in one key_by()"),
    (WindowedStream, "filter", "call aggregate() first, or use filter before key_by()"),
    (WindowedStream, "to", "call aggregate() first, or use to before window()"),
    (WindowedStream, "scan", "use scan before window()"),
    (WindowedStream, "window", "a stream has windows once"),
    (Stream, "rename", "use select(new_name=col('old_name')) with all columns"),
    (KeyedStream, "where", "use filter(): use filter before key_by()"),
    (Stream, "group_by", "use key_by()"),
    (Stream, "peek", "call peek(stream, inputs) on the pipeline"),
    (AggregatedStream, "run", "call run(inputs) on the pipeline"),
    (KeyedStream, "windw", "a keyed stream has no such method; did you mean window?"),
    (WindowedStream, "foo", "a stream in windows has no such method; it has aggregate"),
]


@pytest.mark.parametrize(("kind", "name", "message"), TABLE)
def test_the_error_says_what_to_write(kind, name, message):
    stream = _stream(kind)
    with pytest.raises(PipelineError) as refused:
        getattr(stream, name)
    assert message in str(refused.value)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_python_sees_that_there_is_no_such_attribute(kind):
    stream = _stream(kind)
    assert not hasattr(stream, "rename")
    assert not hasattr(stream, "__len__")
    assert type(copy.copy(stream)) is kind
    with pytest.raises(AttributeError) as refused:
        _ = stream._private
    assert not isinstance(refused.value, PipelineError)
