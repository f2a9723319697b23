"""Raw record values as an open topic may hold them, and what must become of each.

The sources under test declare COLUMNS; an outcome is "good", "blank", or a dead letter's reason.
"""

import polars as pl

COLUMNS: dict[str, pl.DataType] = {
    "player": pl.String(),
    "at": pl.Int64(),
    "x": pl.Float64(),
    "ok": pl.Boolean(),
}

GOOD, BLANK = "good", "blank"

VALUES: list[tuple[bytes | None, str]] = [
    # Good, if odd.
    (b'{"player":"a","at":1,"x":0.5,"ok":true}', GOOD),
    (b"{}", GOOD),
    (b'{"player":null,"at":null,"x":null,"ok":null}', GOOD),
    (b'\xef\xbb\xbf{"at":1}', GOOD),
    (b'{"at":1}\r\n', GOOD),
    (b' \t\n{"at"\n:\r\n1}\n', GOOD),
    (b'{"at":1,"at":2}', GOOD),
    (b'[{"at":1}]', GOOD),
    (b'{"x":1}', GOOD),
    (b'{"x":-0.0}', GOOD),
    (b'{"at":9223372036854775807}', GOOD),
    (b'{"at":-9223372036854775808}', GOOD),
    (b'{"player":"line\\nbreak \\u0000 \\ud83d\\ude00"}', GOOD),
    ('{"player":"\u2028 \x85 é"}'.encode(), GOOD),
    (b'{"other":1e400,"more":[{"x":[]}]}', GOOD),
    (b'{"other":' + b"[" * 127 + b"]" * 127 + b"}", GOOD),
    (b'{"player":"' + b"[{" * 500 + b'"}', GOOD),
    (b'{"player":"' + b"z" * 2**20 + b'"}', GOOD),
    # Nothing in it.
    (None, BLANK),
    (b"", BLANK),
    (b" \r\n\t", BLANK),
    (b"\xef\xbb\xbf", BLANK),
    (b"\xef\xbb\xbf \n", BLANK),
    (b"[]", "expected an object, got an empty array"),
    (b" [ ]\r\n", "expected an object, got an empty array"),
    # No object.
    (b"[1]", "element 0: expected object, got int"),
    (b'[{"at":1},null]', "element 1: expected object, got null"),
    (b'[{"at":1},{"at":"2"}]', "element 1: column at: expected int, got str"),
    (b'[[{"at":1}]]', "element 0: expected object, got array"),
    (b'"a"', "expected object, got str"),
    (b"1", "expected object, got int"),
    (b"null", "expected object, got null"),
    # Not JSON.
    (b"hello", "not JSON: invalid character (byte 0)"),
    (b"{'at':1}", "not JSON: object keys must be strings (byte 1)"),
    (b'{"at":1', "not JSON: ends too early (byte 7)"),
    (b'\xef\xbb\xbf{"at":1', "not JSON: ends too early (byte 10)"),
    (b'{"at":1,}', "not JSON: trailing comma in object (byte 8)"),
    (b'{"at":1}{"at":2}', "not JSON: trailing characters (byte 9)"),
    (b'{"at":1}\n{"at":2}', "not JSON: trailing characters (byte 10)"),
    (b'{"player":"a\nb"}', "not JSON: invalid character (byte 12)"),
    (b'{"x":NaN}', "not JSON: invalid character (byte 5)"),
    (b'{"x":Infinity}', "not JSON: invalid character (byte 5)"),
    (b'{"other":NaN}', "not JSON: invalid character (byte 9)"),
    (b'{"player":"\\ud800"}', "not JSON: half a surrogate pair (byte 11)"),
    (b'{"other":"\\udc00 and more text"}',
     "not JSON: invalid utf-16 surrogate pair (byte 16)"),
    (b"\x00", "not JSON: invalid character (byte 0)"),
    # Not UTF-8, be it in a column, another member or a name.
    (b'{"player":"\xff"}', "not UTF-8 (byte 11)"),
    (b'{"other":"\xe9"}', "not UTF-8 (byte 10)"),
    (b'{"\xff":1}', "not UTF-8 (byte 2)"),
    (b'{"player":"\xed\xa0\x80"}', "not UTF-8 (byte 11)"),
    # Nested too deep.
    (b'{"other":' + b"[" * 128 + b"]" * 128 + b"}", "nested deeper than 128"),
    (b'{"other":' + b'{"a":[' * 100_000 + b"]}" * 100_000 + b"}", "nested deeper than 128"),
    (b"[" * 1_000_000, "nested deeper than 128"),
    # A column of another type.
    (b'{"at":"1"}', "column at: expected int, got str"),
    (b'{"at":1.0}', "column at: expected int, got float"),
    (b'{"at":true}', "column at: expected int, got bool"),
    (b'{"at":[1]}', "column at: expected int, got array"),
    (b'{"at":9223372036854775808}', "column at: number out of range"),
    (b'{"at":-9223372036854775809}', "column at: number out of range"),
    (b'{"at":' + b"9" * 50 + b"}", "column at: number out of range"),
    (b'{"x":1e400}', "column x: number out of range"),
    (b'{"x":' + b"9" * 400 + b"}", "column x: number out of range"),
    (b'{"x":"1"}', "column x: expected float, got str"),
    (b'{"x":true}', "column x: expected float, got bool"),
    (b'{"ok":1}', "column ok: expected bool, got int"),
    (b'{"player":5}', "column player: expected str, got int"),
    (b'{"player":{"a":1}}', "column player: expected str, got object"),
]  # fmt: skip
