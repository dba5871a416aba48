"""A collection as the service knows it: under a name, with its pictures and labels."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.collection import Collection, UnsupportedByStoreError
from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole
from hashlearn.service.features import ImageFeatures, has_backbone, image_features
from hashlearn.service.pictures import DEFAULT_FIELD, Pictures, open_pictures

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LABEL_FIELDS = ("labels", "label")
BESIDE = "serve.json"
_LOOKED_AT = 100


@dataclass(frozen=True)
class Beside:
    """What serve.json in a collection's folder says about showing it; options of the command line go first.

    images : a folder or zip of pictures; a relative path begins in the collection's folder.
    image_field : the field of the payload with a picture's path.
    image_features : how to make rows of pictures: "gist:32", "pixels:32", "grey:28".
    label_field : the field of the payload with an item's labels.
    """

    images: str | None = None
    image_field: str | None = None
    image_features: str | None = None
    label_field: str | None = None

    def write(self, folder: Path) -> None:
        known = {name: value for name, value in vars(self).items() if value is not None}
        with written_whole(folder / BESIDE) as stream:
            stream.write(json.dumps(known, indent=2).encode())

    @classmethod
    def read(cls, folder: Path) -> Beside:
        path = folder / BESIDE
        if not path.is_file():
            return cls()
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if not all(isinstance(value, str) for value in values.values()):
                raise ValueError
            return cls(**values)
        except (ValueError, TypeError, AttributeError) as error:
            known = ", ".join(vars(cls()))
            raise FileError(f"{path} must be a JSON object of text with the names {known}.") from error


class Opened:
    """A collection, its pictures, how to search it by a picture, and where its labels are."""

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
        self.pictures = pictures
        self.features = features
        self.writable = writable
        self.hasher = collection.hasher
        self._label_field = label_field

    @property
    def n_bits(self) -> int:
        return self.collection.n_bits

    @property
    def takes_vectors(self) -> bool:
        return self.hasher is not None and not has_backbone(self.hasher)

    @property
    def n_features(self) -> int | None:
        return int(self.hasher.n_features_in_) if self.takes_vectors else None

    def warm(self) -> None:
        """Bring the codes into memory before the first search needs them."""
        self.collection.search(codes=np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8), k=1)

    def label_field(self) -> str | None:
        """Where labels are: as told, else found in the first rows and remembered."""
        if self._label_field is None:
            for rows in self.collection.scan(_LOOKED_AT):
                fields = [name for name in LABEL_FIELDS if any(name in payload for payload in rows.payloads)]
                self._label_field = fields[0] if fields else None
                break
        return self._label_field

    def ids(self) -> NDArray[np.int64]:
        """All ids, sorted."""
        zero = np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8)
        try:
            return np.sort(self.collection.within(codes=zero, radius=self.n_bits).ids)
        except UnsupportedByStoreError:
            parts = [rows.ids for rows in self.collection.scan()]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def facts(self, may_write: bool) -> dict[str, Any]:
        """What the list of collections tells."""
        vectors = self.collection.vector_size
        label_field = self.label_field()
        return {
            "name": self.name,
            "rows": self.collection.count(),
            "n_bits": self.n_bits,
            "hasher": self._hasher_facts(),
            "has_vectors": vectors is not None,
            "has_images": self.pictures is not None,
            "has_labels": label_field is not None,
            "label_field": label_field,
            "can": {
                "vector": self.takes_vectors,
                "image": self.features is not None,
                "asymmetric": self.hasher is not None,
                "rescore": vectors is not None and self.takes_vectors,
                "write": may_write and self.writable,
            },
            "kind": self.collection.info()["kind"],
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
) -> Opened:
    """Open a collection for the service; what is not given is taken from serve.json in its folder."""
    folder = Path(uri)
    beside = Beside.read(folder) if "://" not in uri and folder.is_dir() else Beside()
    collection = Collection.open(uri, read_only=read_only)
    try:
        path = images or (None if beside.images is None else folder / beside.images)
        pictures = None if path is None else open_pictures(path, beside.image_field or DEFAULT_FIELD)
        rows = image_features(features or beside.image_features, collection.hasher)
        label = label_field or beside.label_field
        return Opened(name or default_name(uri), collection, pictures, rows, label, writable=not read_only)
    except BaseException:
        collection.close()
        raise


def default_name(uri: str) -> str:
    """The last part of a folder or of a URI, or its collection=…; characters that a name cannot have become "-"."""
    found = re.search(r"[?&]collection=([^&]+)", uri)
    last = found[1] if found else Path(uri.partition("?")[0]).resolve().name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", last)[:64].strip(".") or "collection"
