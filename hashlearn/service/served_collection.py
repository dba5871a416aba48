"""A collection as the service knows it: under a name, with its pictures and labels."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.collection import Collection, UnsupportedByStoreError
from hashlearn.collection.health import Health
from hashlearn.data.embed import TextModel
from hashlearn.service.display_config import DisplayConfig
from hashlearn.service.errors import LONGEST_MESSAGE, collection_errors
from hashlearn.service.image_features import ImageFeatures, has_backbone, image_features
from hashlearn.service.pictures import DEFAULT_FIELD, Pictures, open_pictures

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LABEL_FIELDS = ("labels", "label")
_ROWS_FOR_LABELS = 100
_UNVERSIONED_SECONDS = 60  # that answers are kept where the storage has no version


class ServedCollection:
    """A collection, its pictures, how to search it by a picture, and where its labels are.

    Parameters
    ----------
    name : str
        What the address of the collection ends in.
    collection : Collection
    pictures : Pictures, optional
    features : ImageFeatures, optional
        How an uploaded picture becomes a row that the hasher takes.
    label_field : str, optional
        The payload field with labels. Without it the field is looked for in the first rows.
    writable : bool
    """

    def __init__(
        self,
        name: str,
        collection: Collection,
        pictures: Pictures | None = None,
        features: ImageFeatures | None = None,
        label_field: str | None = None,
        writable: bool = True,
    ) -> None:
        if not NAME.fullmatch(name) or name in (".", ".."):
            raise ValueError(f"A collection's name has 1 to 64 letters, digits, '_', '.' or '-'. Got {name!r}.")
        self.name = name
        self.collection = collection
        # Clients are told in the answer. A warning would be told once, to the operator, and be kept in memory.
        collection.warns_of_filters = False
        self.pictures = pictures
        self.features = features
        self.writable = writable
        self.texts: TextModel | None = None  # how a text becomes a row that the hasher takes
        self.droppable = False  # whether it lies in the folder where clients make and drop collections
        self.hasher = collection.hasher
        self.n_bits = collection.n_bits
        takes_vectors = self.hasher is not None and not has_backbone(self.hasher)
        self.n_features = int(self.hasher.n_features_in_) if takes_vectors else None
        self._label_field = label_field
        self._looked_at: tuple[object, Health] | None = None

    def probe(self) -> None:
        """Search once. This brings the codes into memory, and raises what any search would raise."""
        self.collection.search(codes=np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8), k=1)

    def label_field(self) -> str | None:
        """The payload field with labels: as given, else the one in the first rows, which is remembered."""
        if self._label_field is None:
            for rows in self.collection.scan(_ROWS_FOR_LABELS):
                fields = [name for name in LABEL_FIELDS if any(name in payload for payload in rows.payloads)]
                self._label_field = fields[0] if fields else None
                break
        return self._label_field

    def version(self) -> object:
        """A value that is another one once rows have changed.

        Where the storage tells no version, the value changes with the number of rows and every minute.
        """
        info = self.collection.info()
        return info.get("version") or (info["rows"], time.monotonic() // _UNVERSIONED_SECONDS)

    def health(self) -> Health:
        """What ``Collection.health`` tells; codes are looked at again only once rows have changed."""
        version, known = self.version(), self._looked_at
        if known is None or known[0] != version:
            known = self._looked_at = version, self.collection.health()
        return known[1]._replace(rows=self.collection.count(), **self.collection.query_figures()._asdict())

    def filter_warnings(self, where: dict[str, Any] | None, found: bool) -> dict[str, list[str]]:
        """Sentences about fields that cannot match, as ``warnings``, if a filter with them has found nothing."""
        if not where or found:
            return {}
        with collection_errors():
            told = self.collection.filter_advice(where)
        return {"warnings": [sentence[:LONGEST_MESSAGE] for sentence in told]} if told else {}

    def ids(self) -> NDArray[Any]:
        """All ids, sorted. Texts are read with the payloads, which takes longer than numbers take."""
        if self.collection.id_kind != "int":
            return np.sort(np.concatenate([np.empty(0, dtype=object), *(rows.ids for rows in self.collection.scan())]))
        zero = np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8)
        try:
            return np.sort(self.collection.within(codes=zero, radius=self.n_bits).ids)
        except UnsupportedByStoreError:
            parts = [rows.ids for rows in self.collection.scan()]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def facts(self, may_write: bool) -> dict[str, Any]:
        """What the list of collections tells about this one."""
        has_vectors = self.collection.vector_size is not None
        label_field = self.label_field()
        return {
            "name": self.name,
            "rows": self.collection.count(),
            "n_bits": self.n_bits,
            "hasher": self._hasher_facts(),
            "has_vectors": has_vectors,
            "has_images": self.pictures is not None,
            "has_labels": label_field is not None,
            "label_field": label_field,
            "can": {
                "vector": self.n_features is not None,
                "image": self.features is not None,
                "text": self.texts is not None,
                "asymmetric": self.hasher is not None,
                "rescore": has_vectors and self.n_features is not None,
                "write": may_write and self.writable,
                "drop": may_write and self.droppable,
            },
            "kind": self.collection.info()["kind"],
            "ids": self.collection.id_kind,
        }

    def _hasher_facts(self) -> dict[str, Any] | None:
        if self.hasher is None:
            return None
        info = self.hasher.info
        return {"method": info.name, "title": info.title, "n_features": self.n_features}


def open_collection(
    uri: str,
    name: str | None = None,
    *,
    images: Path | None = None,
    features: str | None = None,
    label_field: str | None = None,
    read_only: bool = False,
) -> ServedCollection:
    """Open a collection for the service. What is not given is taken from serve.json in its folder."""
    folder = Path(uri)
    display = DisplayConfig.read(folder) if "://" not in uri and folder.is_dir() else DisplayConfig()
    collection = Collection.open(uri, read_only=read_only)
    try:
        path = images or (None if display.images is None else folder / display.images)
        pictures = None if path is None else open_pictures(path, display.image_field or DEFAULT_FIELD)
        row_features = image_features(features or display.image_features, collection.hasher)
        label = label_field or display.label_field
        return ServedCollection(
            name or default_name(uri), collection, pictures, row_features, label, writable=not read_only
        )
    except BaseException:
        collection.close()
        raise


def default_name(uri: str) -> str:
    """The last part of a folder or of a URI, or its ``collection=``; "-" replaces what a name cannot have."""
    found = re.search(r"[?&]collection=([^&]+)", uri)
    last = found[1] if found else Path(uri.partition("?")[0]).resolve().name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", last)[:64].strip(".") or "collection"
