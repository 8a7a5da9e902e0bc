# SPDX-License-Identifier: Apache-2.0
"""The one way in which migration finds out that an object is not there. Used by the operator's part and the command."""

from __future__ import annotations

from typing import Any, Protocol

from trainsnap_api.transport import KindNotServed, NotFound, Resource
from trainsnap_controller import constants as c

JSON = dict[str, Any]


class Api(Protocol):
    """The request that is needed."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...


async def find(api: Api, resource: Resource, name: str, namespace: str | None) -> JSON | None:
    """The object, or None when there is none. Our own kinds may not be installed, and then there is none either.

    Raises ``KindNotServed`` for every other kind: every cluster serves those, so that this is no answer about the
    object. A ConfigMap that is there would be passed over, and the live runtime be taken for good.
    """
    try:
        return await api.get(resource, name, namespace)
    except KindNotServed:
        if resource.group != c.GROUP:
            raise
        return None
    except NotFound:
        return None
