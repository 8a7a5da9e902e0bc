# SPDX-License-Identifier: Apache-2.0
"""A copy of the cluster's objects, kept current by watches.

Vocabulary: a *reflector* lists and watches one kind; the *store* holds its objects as raw JSON by *key* and by *index*;
an *entry* is one object in it; an *informer* is the two together with the *handlers* that hear of changes; the *cache*
is all informers.
"""

from trainsnap_controller.cache.cache import Cache
from trainsnap_controller.cache.entry import Entry, Key, OwnerReference
from trainsnap_controller.cache.informer import Handler, Informer
from trainsnap_controller.cache.reflector import ReflectorMetrics, Source
from trainsnap_controller.cache.store import CacheEvent, IndexFunction, Store

__all__ = [
    "Cache",
    "CacheEvent",
    "Entry",
    "Handler",
    "IndexFunction",
    "Informer",
    "Key",
    "OwnerReference",
    "ReflectorMetrics",
    "Source",
    "Store",
]
