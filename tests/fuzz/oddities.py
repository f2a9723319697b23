"""What the records of a fuzz are made of: values, instants, members and bytes, right and wrong."""

# fmt: off

VALUES: tuple[bytes, ...] = (
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"nan", b"nul", b"tru",
    b"undefined", b"0", b"-0", b"1", b"-1", b"127", b"128", b"-128", b"-129", b"255", b"256",
    b"32767", b"32768", b"-32768", b"-32769", b"65535", b"65536", b"2147483647", b"2147483648",
    b"-2147483649", b"4294967295", b"4294967296", b"9007199254740993", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
    b"18446744073709551615", b"18446744073709551616", b"1" + b"0" * 400, b"-" + b"9" * 5_000,
    b"0.1", b"-0.0", b"1.0", b"1e2", b"1E+2", b"1e-2", b"5e-324", b"2e-324", b"1e308", b"1.8e308",
    b"1e400", b"-1e400", b"1e-400", b"0e999999999", b"1e", b"1.", b".5", b"+1", b"01", b"-", b"--1",
    b"1.7976931348623157e308", b"0.30000000000000004", b"1" * 309, b"1" * 308, b"0x10", b"1_000",
    b"[]", b"[1]", b"[null]", b"{}", b'{"a":1}', b"[[]]", b'["a",1,null]', b"[1,]", b"{,}", b"",
    b'""', b'"a"', b'"1"', b'"null"', b'"\\u0000"', b'"a\\u0000b"', b'"\x00"', b'"\x01"', b'"\t"',
    b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00"', b'"\\udc00\\ud800"', b'"\\ud800\\u0041"',
    b'"\\ud800\\ud800\\udc00"', b'"\\uD83D"', b'"\\n\\r\\t\\b\\f\\/\\\\\\""', b'"\\x41"',
    b'"\\u12"', b'"\xff"', b'"\xc3\xa9"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xf0\x9f\x98\x80"',
    b'"\xc0\x80"', b'"\xe2\x80\xa8"', b'"\xef\xbf\xbf"', b'"\xf4\x90\x80\x80"', b'"open', b"'a'",
    b'"[{[{"', b'"\\u0061"', b'"\xc2\x85"', b'"\x7f"', b'"a" "b"', b"1 2", b"// no", b"/* no */ 1",
    b"\x00",
)
"""What may stand where a value should: right and wrong JSON, right and wrong of its type."""

INSTANTS: tuple[str, ...] = (
    "2023-11-14T22:13:20Z", "2023-11-14 22:13:20.123456789+02:00", "2023-11-14t22:13:20,5z",
    "2023-11-14T22:13Z", "2023-11-14T22:13:20", "2023-11-14T22:13:20+0530",
    "2023-11-14T22:13:20-08", "2023-11-14", "22:13:20Z", "2023-W46-2T22:13:20Z",
    "2023-318T22:13:20Z", "20231114T221320Z", "2023-02-29T00:00:00Z", "2024-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2023-11-14T24:00:00Z", "2023-11-14T23:59:60Z",
    "2023-11-14T22:60:00Z", "2023-13-01T00:00:00Z", "2023-00-10T00:00:00Z", "2023-04-31T00:00:00Z",
    "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999-00:01", "10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z", "1969-12-31T23:59:59.9995Z", "1582-10-10T00:00:00Z",
    "2023-03-26T02:30:00", "2023-10-29T02:30:00", "2023-10-29T03:00:00", "2023-10-29T01:59:59.999",
    "2023-03-26T01:59:59", "2023-03-26T03:00:00", "1893-04-01T00:03:00", "1980-04-06T02:15:00",
    "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20.1234567890Z", "2023-11-14T22:13:20+24:00",
    "2023-11-14T22:13:20+02:60", "2023-11-14T22:13:20 Z", " 2023-11-14T22:13:20Z",
    "2023-11-14T22:13:20Z\\n", "2023-11-14T22:13:20+2", "2023-11-14T22:13:20+02:00:00",
    "2023-11-14T22:13:20UTC", "1700000000000", "\u0662\u0660\u0662\u0663-11-14T22:13:20Z",
    "2023-11-14T22:13:20\u2212 02:00", "Tue, 14 Nov 2023", "", "2037-03-29T02:30:00",
    "2050-10-30T02:30:00", "1945-05-24T02:30:00", "2023-11-14T22:13:20z",
    "2023-11-14 22:13:20 Europe/Berlin", "2023-11-14T22:13:20[Europe/Berlin]", "20231114T2213",
    "2023-11-14T22:13:20+01:00[Europe/Berlin]", "2023-10-29T02:30:00+02:00[Europe/Berlin]",
    "2023-10-29 02:30:00 Europe/Berlin", "2023-11-14 22:13:20 +0100 CET", "2023-11-14 22:13:20 CET",
    "2023-11-14 22:13:20 Mars/Olympus", "2023-11-14T22:13:20.123456789012Z", "20231114T221320,5+01",
    "2023-11-14T22:13:20.1234567890123Z", "2023-11-14T22:13:20Z[UTC]", "20231114 221320Z",
)
"""Spellings of instants: right, nearly right, and of another standard."""

WORDS: tuple[str, ...] = (
    "", "a", "b", "p1", "p2", "boom", "\u00e9", "\u65e5\u672c", "\U0001f600", "a b", "x,y,z", ",,",
    "7", "-8", "+9",
)
"""Texts without anything to escape."""

NOTHING: tuple[bytes | None, ...] = (
    None, b"", b" ", b"\r\n\t ", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n", b"\x0b",
    b"\xef\xbb\xbf\xef\xbb\xbf",
)
"""Blank values, and one that only looks blank."""

NO_OBJECT: tuple[bytes, ...] = (
    b"[]", b"[1,2]", b"1", b'"a"', b"null", b"true", b"hello", b"<a/>", b"\x00", b"\xff",
    b"Obj\x01\x04\x14avro.codec\x08null", b"\x00\x00\x00\x00\x07\x02a\x80\x80",
    b"\xc3\x01xxxxxxxxxxxxxxxxxxxx", b"a,b,c\n1,2,3", b"{}{}", b"{}\n{}", b"[{}]", b"{", b"}",
    b"{}}", b'{"a"}', b"{'a':1}", b"\xfe\xff\x00{\x00}", b"{\x00}\x00", b"\x1f\x8b\x08\x00",
    b"{\x0b}", b"\x0c{}", b"{}\x00",
)
"""Values that are no JSON object."""

MEMBERS: tuple[bytes, ...] = (
    b'"":1', b'"other":{"a":[1,{"b":null}]}', b'"other":1e400', b'"other":"\\ud800"',
    b'"\\ud800":1', b'"\xff":1', b'"other":"\xe9"', b'"other":NaN', b'"other":01', b'"other":[1,]',
    b'"other":"\x1f"', b'"o":"\\x"', b'"o":[][]', b'"o":"\\\\\\\\\\\\\\"',
    *(b'"o":' + b"[" * n + b"]" * n for n in (100, 127, 128, 129, 1_500)),
    *(b'"o":' + b'{"a":[' * n + b"]}" * n for n in (63, 64, 5_000)),
    b'"o":"' + b"[{" * 200 + b'"', b'"o":"\\\\\\"' + b"[" * 200 + b'"',
    b'"o":[' + b"{}," * 300 + b"1]",
    b'"o":"' + b"\\" * 7 + b'"',
)
"""Members that no column has, some of which no JSON has."""

KEYS: tuple[bytes | None, ...] = (
    None, b"", b"k", b"key-7", b"\x00", b"\xff\xfe", b"gr\xc3\xb6\xc3\x9fe", b"k" * 300,
)
"""Keys of Kafka records."""

HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (), (("trace", b"1"),), (("a", None), ("a", b""), ("", b"x")), (("bad", b"\xff\xfe"),),
    tuple((f"h{n}", b"v" * n) for n in range(30)),
)
"""Headers of Kafka records."""

DRESSES: tuple[bytes, ...] = (
    b"\xef\xbb\xbf%s", b"%s\r\n", b" \t\r\n%s \n", b"\xef\xbb\xbf \n%s", b"%s%s",
    b"[%s]", b"[%s]", b"[%s,%s]", b" [{}, %s]", b"[]", b"[%s,%s,null]", b"[[%s]]",
    b"%s\n%s", b"%s,", b"(%s)", b"\x00%s", b"%s\x00", b"%s #", b"\x0b%s",
    b"\xef\xbb\xbf\xef\xbb\xbf%s",
    b"\x00\x00\x00\x00\x01%s", b"\xc2\xa0%s", b"\x1e%s\n", b"callback(%s)", b"%s//", b"\xff%s",
)
"""What producers put around a record, right and wrong."""

MARKS: tuple[bytes, ...] = (b'"', b"\\", b",", b":", b"{", b"]", b"\n", b"0", b" ", b"\xef\xbb\xbf")
"""Bytes that mean something to a reader of JSON, where they stand."""
