"""Reads the letters of a pipeline's topic up to its present end, a few at a time."""

from collections.abc import Iterator

from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.runtime.letters.selection import Selection, StoredLetter
from tidemark.serde.letters import decode_letter


class LetterReader:
    """The letters that a topic has now; letters that come later are left out."""

    def __init__(self, config: Config, admin: AdminClient, topic: str) -> None:
        """``topic``: of dead letters.

        Raises:
            ConfigurationError: the topic does not exist.
        """
        require(admin, [topic])
        self._config, self._admin = config, admin
        self._at = Partition(topic, 0)
        self._begin = offsets(admin, [self._at], EARLIEST)[self._at]
        self._end = committed_ends(admin, [self._at])[self._at]

    def read(self, selection: Selection) -> Iterator[StoredLetter]:
        """Yield the selected letters in the order in which they were written.

        Raises:
            ConfigurationError: an id of the selection is not in the topic.
        """
        for number in selection.ids:
            if not self._begin <= number < self._end:
                raise ConfigurationError(
                    f"letter {number} is not in {self._at.topic}, which has letters "
                    f"{self._begin} to {self._end - 1}"
                )
        for message in read(self._config, {self._at: self._range(selection)}):
            letter = decode_letter(message.value())
            if letter is not None:
                stored = StoredLetter(message.offset() or 0, message.timestamp()[1], letter)
                if selection.fits(stored):
                    yield stored

    def _range(self, selection: Selection) -> tuple[int, int]:
        begin, end = self._begin, self._end
        if selection.ids and not selection.places:
            begin, end = min(selection.ids), max(selection.ids) + 1
        if selection.since_ms is not None:
            spec = OffsetSpec.for_timestamp(selection.since_ms)
            found = offsets(self._admin, [self._at], spec)[self._at]
            begin = max(begin, end if found < 0 else found)
        return begin, end
