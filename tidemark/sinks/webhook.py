"""A sink to a webhook: posts records to an address, at least once.

A request holds up to 500 consecutive records of one partition, as a JSON array of objects with
``key``, ``value`` and ``offset``.  ``Idempotency-Key`` names topic, partition and offsets, so a
receiver can skip what it has seen.  After a crash the same records may come again, split into other
requests.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

import httpx
import msgspec

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.sink import (
    Batch,
    Position,
    RefusedError,
    TablesStoppedError,
    UnavailableError,
)
from tidemark.sinks.table import Table, avro_reasons

_TIMEOUT_S = 30.0
_MOST_RECORDS = 500
_TOO_MANY, _TOO_EARLY, _TIMED_OUT, _SERVER = 429, 425, 408, 500
_WRONG = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
# With these status codes the receiver refuses any request, so the row is not the cause.
_SETTINGS = {301, 302, 303, 307, 308, 401, 403, 404, 405, 407}


class WebhookSink:
    """An address that takes POST requests."""

    every_ms = 0

    def __init__(self, url: str) -> None:
        """``url``: http or https; user and password become basic authentication."""
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL:  # its text repeats the address
            raise ConfigurationError(
                "TIDEMARK_SINK: the address of the webhook is not valid"
            ) from None
        self._client = httpx.Client(timeout=_TIMEOUT_S)
        self._taken: dict[tuple[Partition, str], int] = {}

    @property
    def _shown(self) -> str:
        return str(self._url.copy_with(userinfo=b""))

    def prepare(self, tables: Sequence[Table]) -> None:
        """Raise TablesStoppedError for topics that do not hold JSON."""
        reasons = avro_reasons(tables, "a webhook takes only JSON")
        if reasons:
            raise TablesStoppedError(reasons)

    def positions(self, _partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return none: the offsets committed in Kafka are the positions."""
        return {}

    def write(self, batches: Sequence[Batch]) -> None:
        """Post the records of each batch, except those that an earlier try has posted."""
        for batch in batches:
            of = batch.partition, batch.move.topic_id
            begin = bisect_left(batch.offsets, self._taken.get(of, 0))
            for first in range(begin, len(batch.offsets), _MOST_RECORDS):
                part = slice(first, first + _MOST_RECORDS)
                self._post(batch, part)
                self._taken[of] = batch.offsets[part][-1] + 1

    def _post(self, batch: Batch, part: slice) -> None:
        at, offsets = batch.partition, batch.offsets[part]
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{at.topic}/{at.number}/{offsets[0]}-{offsets[-1]}",
            "Tidemark-Topic": at.topic,
            "Tidemark-Topic-Id": batch.move.topic_id,
            "Tidemark-Generation": str(batch.generation),
        }
        try:
            answer = self._client.post(self._url, content=_body(batch, part), headers=headers)
        except httpx.TransportError as error:
            line = f"webhook {self._shown}: {error}"
            wrong = isinstance(error, _WRONG) or _CERTIFICATE in line
            raise (ConfigurationError(line) if wrong else UnavailableError(line)) from error
        self._require_taken(answer)

    def _require_taken(self, answer: httpx.Response) -> None:
        status = answer.status_code
        line = f"webhook {self._shown} answered {status} {answer.reason_phrase}"
        if status in _SETTINGS:
            raise ConfigurationError(line)
        if status >= _SERVER or status in (_TOO_MANY, _TOO_EARLY, _TIMED_OUT):
            raise UnavailableError(line)
        if not answer.is_success:
            raise RefusedError(line)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _body(batch: Batch, part: slice) -> bytes:
    # The key of a dead letter is the raw record's, any bytes; the value holds it as text.
    has_key = not batch.table.raw_keys
    records = zip(batch.keys[part], batch.values[part], batch.offsets[part], strict=True)
    return msgspec.json.encode(
        [
            {
                "key": msgspec.Raw(key) if has_key and key is not None else None,
                "value": msgspec.Raw(value),
                "offset": offset,
            }
            for key, value, offset in records
        ]
    )
