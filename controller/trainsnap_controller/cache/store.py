# SPDX-License-Identifier: Apache-2.0
"""The objects of one kind, by key and by index, and what changes when the watch or a list says something.

The reflector of the kind writes here, everybody reads. All of it is synchronous: a reader never sees half a change.
The store never calls the API server, and never hands out a document that two readers share.

**Read your writes.** The watch is a moment behind. A reconciler that has just created an object would not find it
and create it again, so `observe_write` takes the API server's answer to our own write. That is safe because:

- It is taken only if its resourceVersion is newer than everything the watch has delivered. If the watch is further
  on, it has told the truth about that object already, including that it was deleted since; nothing that is gone can
  come back.
- It is only laid over what the watch said. The watch will deliver that same state, or a later one, and then what the
  watch says counts again. If the watch passes that version without it (our write moved the object out of a
  selector), the overlay goes.
- Handlers hear of it when the watch delivers it, with the old state that they knew: nothing is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import structlog

from trainsnap_controller.cache.entry import Entry, Key, decode_entry, encode_object, version_number

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource

IndexFunction = Callable[[Entry], Iterable[str]]
EventType = Literal["added", "updated", "deleted"]

_log = structlog.stdlib.get_logger(__name__)


class CacheEvent(msgspec.Struct, frozen=True, gc=False):
    """A change of one object. ``old`` is None for added, ``new`` is None for deleted; a deletion carries the last
    state that is known. A resync is ``updated`` with ``old is new``."""

    type: EventType
    old: Entry | None
    new: Entry | None

    @property
    def key(self) -> Key:
        return self.entry.key

    @property
    def entry(self) -> Entry:
        """The newest state that the event knows."""
        entry = self.new or self.old
        assert entry is not None
        return entry


class Store:
    """All objects of one resource, as one watch shows them."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._entries: dict[Key, Entry] = {}
        self._overlaid: dict[Key, Entry | None] = {}
        """For keys whose entry is a write of our own: what the watch says of them (None: nothing there)."""
        self._indexes: dict[str, _Index] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, in no order. A copy: the store may change meanwhile."""
        return iter(list(self._entries.values()))

    def get(self, namespace: str, name: str) -> Entry | None:
        """The entry of an object (namespace ``""`` for cluster-scoped kinds); None if there is none."""
        return self._entries.get(Key(namespace, name))

    def by_index(self, name: str, value: str) -> list[Entry]:
        """The entries for which the index function ``name`` gave ``value``.

        Raises:
            KeyError: there is no such index.
        """
        return [self._entries[key] for key in self._indexes[name].keys(value)]

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index entries by the values that the function gives for each; entries that are there already included.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._indexes:
            raise ValueError(f"{self._resource.name}: index {name!r} exists already")
        index = self._indexes[name] = _Index(name, function)
        for entry in self._entries.values():
            index.put(entry)

    def observe_write(self, obj: dict[str, Any]) -> bool:
        """Show an object as the API server returned it for a write of ours, until the watch catches up.

        Returns whether it was newer than what the store knows. See the module's text for why this is safe.

        Raises:
            UndecodableObjectError: not an object with a name.
        """
        entry = decode_entry(encode_object(obj), self._resource)
        version = entry.version
        if version is None or version <= self._version:
            return False
        current = self._entries.get(entry.key)
        if current is not None and version <= (current.version or 0):
            return False
        self._overlaid.setdefault(entry.key, current)
        self._put(entry)
        return True

    # What follows is for the reflector.

    def apply(self, entry: Entry, *, deleted: bool = False) -> list[CacheEvent]:
        """Take over what the watch says of one object. Returns what changed for those who follow the watch:
        nothing if this state is known already, two events if the object was replaced unseen by one of its name."""
        new = None if deleted else entry
        version = entry.version or 0
        old = self._replace(entry.key, new, version)
        self._advance(version)
        if new is None:
            # The event holds the object's very last state, later than the one that is cached.
            return [] if old is None else [CacheEvent("deleted", entry if entry.uid == old.uid else old, None)]
        return _changes(old, new)

    def replace_all(self, entries: dict[Key, Entry], resource_version: str) -> list[CacheEvent]:
        """Take over a complete list. Returns the difference to what was known, deletions first and with the last
        known state."""
        version = version_number(resource_version) or 0
        if version < self._version:
            # Time went backwards (etcd was restored): no write of ours counts any more.
            for key in list(self._overlaid):
                self._confirm(key)
        events: list[CacheEvent] = []
        known = {key: self._confirmed(key) for key in self._entries.keys() | self._overlaid.keys()}
        for key, old in known.items():
            if old is not None and key not in entries:
                self._replace(key, None, version)
                events.append(CacheEvent("deleted", old, None))
        for key, entry in entries.items():
            if known.get(key) is not entry:
                events.extend(_changes(self._replace(key, entry, version), entry))
        self._version = 0
        self.advance(resource_version)
        return events

    def advance(self, resource_version: str) -> None:
        """The watch has delivered everything up to this version (an event or a bookmark)."""
        self._advance(version_number(resource_version) or 0)

    def _advance(self, version: int) -> None:
        if version > self._version:
            self._version = version
        if self._overlaid:
            for key in list(self._overlaid):
                if (self._entries[key].version or 0) <= self._version:
                    self._confirm(key)

    def known(self, key: Key) -> Entry | None:
        """What the watch last said of an object, whatever we wrote since."""
        return self._confirmed(key)

    def confirmed(self) -> list[Entry]:
        """Everything that the watch has shown."""
        keys = self._entries.keys() | self._overlaid.keys()
        return [entry for key in keys if (entry := self._confirmed(key)) is not None]

    def _confirmed(self, key: Key) -> Entry | None:
        return self._overlaid[key] if key in self._overlaid else self._entries.get(key)

    def _confirm(self, key: Key) -> None:
        entry = self._overlaid.pop(key)
        if entry is None:
            self._drop(key)
        else:
            self._put(entry)

    def _replace(self, key: Key, new: Entry | None, version: int) -> Entry | None:
        """Set what the watch says of a key as of a version; returns what it said before."""
        if key in self._overlaid:
            old = self._overlaid[key]
            self._overlaid[key] = new
            if version >= (self._entries[key].version or 0):
                self._confirm(key)
            return old
        old = self._entries.get(key)
        if new is None:
            self._drop(key)
        else:
            self._put(new)
        return old

    def _put(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        for index in self._indexes.values():
            index.put(entry)

    def _drop(self, key: Key) -> None:
        if self._entries.pop(key, None) is not None:
            for index in self._indexes.values():
                index.drop(key)


class _Index:
    """Keys by value. Holds each key's values too, so that an update that changes none of them costs no bookkeeping."""

    __slots__ = ("_by_key", "_by_value", "_function", "_name")

    def __init__(self, name: str, function: IndexFunction) -> None:
        self._name = name
        self._function = function
        self._by_value: dict[str, set[Key]] = {}
        self._by_key: dict[Key, tuple[str, ...]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        return self._by_value.get(value, ())

    def put(self, entry: Entry) -> None:
        try:
            values = tuple(dict.fromkeys(self._function(entry)))
        except Exception:
            # What users wrote reaches index functions unchecked: one odd object must not stop the whole kind.
            _log.exception("index function failed; the object is left out", index=self._name, object=str(entry.key))
            values = ()
        old = self._by_key.get(entry.key, ())
        if values == old:
            return
        for value in old:
            self._remove(value, entry.key)
        for value in values:
            self._by_value.setdefault(value, set()).add(entry.key)
        if values:
            self._by_key[entry.key] = values
        else:
            del self._by_key[entry.key]

    def drop(self, key: Key) -> None:
        for value in self._by_key.pop(key, ()):
            self._remove(value, key)

    def _remove(self, value: str, key: Key) -> None:
        keys = self._by_value[value]
        keys.discard(key)
        if not keys:
            del self._by_value[value]


def _changes(old: Entry | None, new: Entry) -> list[CacheEvent]:
    if old is None:
        return [CacheEvent("added", None, new)]
    if old.uid != new.uid:
        return [CacheEvent("deleted", old, None), CacheEvent("added", None, new)]
    if old.resource_version == new.resource_version:
        return []
    return [CacheEvent("updated", old, new)]
