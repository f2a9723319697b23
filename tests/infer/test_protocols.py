"""Times in lines of protocols, and in records of well-known services: small made-up excerpts."""

from datetime import timedelta

import pytest

from tests.infer.modules import half_hours, module_of, of, run
from tidemark.core.operators.ports import PANES

TIMES = [at + timedelta(milliseconds=250) for at in half_hours(24)]
NAMES = ["a", "b", "c"] * 8


def ms(at):
    return round(at.timestamp() * 1000)


LINES = {
    "influx-ns": lambda at, name: f"cpu,host={name} idle=90.5,n=3i {ms(at) * 10**6 + 17}",
    "influx-us": lambda at, name: f"cpu,host={name} idle=90.5 {ms(at) * 1000 + 17}",
    "influx-ms": lambda at, name: f'cpu text="a b",idle=90.5 {ms(at)}',
    "fix": lambda at, name: (
        f"8=FIX.4.4\x019=178\x0135=D\x0149={name}\x0152={at:%Y%m%d-%H:%M:%S}.250\x0111=o\x01"
    ),
    "fix-shown": lambda at, name: (
        f"8=FIX.4.4|9=178|35=D|49={name}|52={at:%Y%m%d-%H:%M:%S}.250|11=o|10=128|"
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_of_a_protocol_have_their_time(kind):
    values = [LINES[kind](at, name).encode() for at, name in zip(TIMES, NAMES, strict=True)]
    text = module_of(values)
    assert "24 that fit + 0 dead" in text
    assert "a guess" not in text
    ran = run(text, values)
    panes = ran.published["counts"].last(PANES)
    assert panes["n"].sum() == 24
    assert panes["start"].min() == ms(TIMES[0]) - 250


def test_lines_in_seconds_of_influx_are_read():
    values = [f"cpu idle=1 {ms(at) // 1000}".encode() for at in TIMES]
    panes = run(module_of(values), values).published["counts"].last(PANES)
    assert (panes["n"].sum(), panes["start"].min()) == (24, ms(TIMES[0]) - 250)


def rmc(at):
    return f"$GPRMC,{at:%H%M%S}.00,A,4807.038,N,01131.000,E,022.4,084.4,{at:%d%m%y},003.1,W*6A"


def gga(at):
    return f"$GPGGA,{at:%H%M%S}.00,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47"


def test_sentences_of_nmea_have_a_date_only_in_rmc():
    values = [rmc(at).encode() for at in TIMES]
    panes = run(module_of(values), values).published["counts"].last(PANES)
    assert (panes["n"].sum(), panes["start"].min()) == (24, ms(TIMES[0]) - 250)
    both = module_of([line for at in TIMES for line in (rmc(at).encode(), gga(at).encode())])
    assert "event_time=INGEST_TIME" in both
    assert "# or: event_time=(col(" in both
    assert ": 24 would be dead" in both


@pytest.mark.parametrize(
    ("line", "shown", "lack"),
    [
        (
            lambda at: f"I{at:%m%d %H:%M:%S}.250001  7 sync.go:9] ok",
            "I0301 12:00:00.250001",
            "year",
        ),
        (lambda at: f"{at:%b  1 %H:%M:%S} h sshd[1]: ok", "Mar  1 12:00:00", "year"),
        (lambda at: f"<34>{at:%b  1 %H:%M:%S} h su: ok", "<34>Mar  1 12:00:00", "year"),
        (gga, "$GPGGA,120000", "date (only RMC has one)"),
        (lambda at: f"{at:%H:%M:%S},250 INFO ok", "12:00:00,250", "date"),
    ],
)
def test_a_time_without_year_or_date_is_refused_with_the_reason(line, shown, lack):
    text = module_of([line(at).encode() for at in TIMES])
    assert "event_time=INGEST_TIME" in text
    assert f"    # Times such as {shown!r} have no {lack}: infer guesses none.\n" in text


def canal(at, n):
    when = ms(at) // 1000 * 1000
    return {"data": [{"id": str(n)}], "es": when, "id": n, "table": f"t{n % 2}", "ts": when + 137}


def kline(at, n):
    begin = ms(at) // 3_600_000 * 3_600_000
    candle = {"t": begin, "T": begin + 3_599_999, "s": "BNB", "o": "0.001", "f": 100 + n}
    return {"e": "kline", "E": ms(at), "s": f"S{n % 3}", "k": candle}


def bitstamp(at, n):
    data = {
        "id": 4000 + n,
        "timestamp": str(ms(at) // 1000),
        "microtimestamp": str(ms(at) * 1000 + 17),
        "buy_order_id": 7 * n,
    }
    return {"data": data, "channel": ("btcusd", "etheur")[n % 2], "event": "trade"}


def twilio(at, n):
    made, sent = at - timedelta(seconds=n * 7 % 13), at
    dates = {"date_created": made, "date_sent": sent, "date_updated": at + timedelta(seconds=3)}
    texts = {name: f"{each:%a, %d %b %Y %H:%M:%S} +0000" for name, each in dates.items()}
    return {"sid": f"SM{n}", "status": ("sent", "failed")[n % 2], **texts}


SERVICES = {
    canal: ("es", "ms"),
    kline: ("E", "ms"),
    bitstamp: ("data.microtimestamp", "us"),
    twilio: ("date_sent", "rfc2822"),
}


@pytest.mark.parametrize("record", SERVICES, ids=lambda record: record.__name__)
def test_the_time_of_the_event_goes_before_the_times_beside_it(record):
    text = of(*(record(at, n) for n, at in enumerate(TIMES)))
    place, unit = SERVICES[record]
    assert f'    event_time="{place}",\n    unit="{unit}",' in text


def test_rows_in_lists_of_lists_get_advice():
    states = [["3c6444", "DLH9LF", 6.15, False], ["4b1815", None, None, True]]
    text = of(*({"time": ms(at) // 1000, "states": states} for at in TIMES))
    assert 'event_time="time"' in text
    assert '# The items of "states" are lists. records.explode("states") makes rows,' in text
    assert '# and col("states").list.get(0) is the first value of a row.' in text
