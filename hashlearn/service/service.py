"""What all routes share: the settings, the collections by name, the threads, the counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from fastapi import Depends, Request

from hashlearn.service.decode import Decoder
from hashlearn.service.errors import ApiError
from hashlearn.service.limits import Workers
from hashlearn.service.metrics import Metrics
from hashlearn.service.opened import Opened
from hashlearn.service.settings import Settings


class Service:
    """Collections under their names, and what it takes to answer for them."""

    def __init__(self, collections: Sequence[Opened], settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.collections = {opened.name: opened for opened in collections}
        if len(self.collections) < len(collections):
            names = sorted(opened.name for opened in collections)
            twice = next(name for name, after in pairwise(names) if name == after)
            raise ValueError(f"Two collections are called {twice!r}: name one of them, NAME=FOLDER.")
        self.workers = Workers(self.settings.limits)
        self.metrics = Metrics()
        self.decoder = Decoder(self.settings.limits)
        self.ready = False

    @property
    def may_write(self) -> bool:
        return self.settings.token is not None

    def warm(self) -> None:
        """Make every collection ready to be searched."""
        for opened in self.collections.values():
            opened.warm()

    def rows(self) -> dict[str, int]:
        return {name: opened.collection.count() for name, opened in self.collections.items()}

    def close(self) -> None:
        """Wait for what was begun and close the collections."""
        self.workers.close()
        for opened in self.collections.values():
            opened.collection.close()


# The framework sends plain functions to a thread; these are over sooner than that.


async def the_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def the_collection(request: Request, collection: str) -> Opened:
    service: Service = request.app.state.service
    opened = service.collections.get(collection)
    if opened is None:
        raise ApiError(404, "no_collection", f"There is no collection {collection[:64]!r} here.")
    return opened


Here = Annotated[Service, Depends(the_service)]
Chosen = Annotated[Opened, Depends(the_collection)]
