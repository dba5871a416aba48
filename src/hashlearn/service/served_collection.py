"""A collection as the service knows it: under a name, with its pictures, labels and texts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from hashlearn import models
from hashlearn.codes import n_bytes
from hashlearn.collection import Collection, Item, UnsupportedByStoreError
from hashlearn.collection.health import Health
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.store import Query
from hashlearn.data.embed import TextModel
from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole
from hashlearn.service.errors import LONGEST_MESSAGE, ApiError, bad
from hashlearn.service.images import DEFAULT_FIELD, ImageFeatures, Pictures, has_backbone, image_features
from hashlearn.service.settings import Limits
from hashlearn.typing import Float32Array

FILE_NAME = "serve.json"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LABEL_FIELDS = ("labels", "label")
_ROWS_FOR_LABELS = 100
_UNVERSIONED_SECONDS = 60  # that answers are kept where the storage has no version
_MAX_NUMBER = 2**63 - 1


class DisplayConfig(BaseModel):
    """How the service shows a collection. Options of the command line take precedence."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    images: str | None = None  # a folder or zip file of pictures inside the collection's folder
    image_field: str | None = None  # the payload field that holds the path of a picture
    image_features: str | None = None  # how pictures become rows: "gist:32", "pixels:32" or "gray:28"

    def pictures_in(self, folder: Path) -> Path | None:
        """Return the path of the pictures, which must lie inside the collection's folder.

        A collection may come from somebody else, and its serve.json must not choose what of this machine is shown.
        """
        if self.images is None:
            return None
        path = (folder / self.images).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise FileError(
                f"{folder / FILE_NAME} names pictures outside of the collection's folder: {self.images!r}. Move them "
                "into that folder, or name them with --images if they may be shown."
            )
        return path

    def write(self, folder: Path) -> None:
        """Write the values that are set to ``serve.json`` in ``folder``."""
        with written_whole(folder / FILE_NAME) as stream:
            stream.write(self.model_dump_json(indent=2, exclude_none=True).encode())

    @classmethod
    def read(cls, folder: Path) -> DisplayConfig:
        """Return the values in ``serve.json`` of ``folder``; none are set where the file is missing."""
        path = folder / FILE_NAME
        try:
            return cls.model_validate_json(path.read_bytes()) if path.is_file() else cls()
        except ValueError as error:
            known = ", ".join(cls.model_fields)
            raise FileError(f"{path} must be a JSON object of text with the names {known}.") from error


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
        The payload field with labels. Without it the collection tells it, or it is looked for in the first rows.
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
        collection._warns_of_filters = False
        self.pictures = pictures
        self.features = features
        self.writable = writable
        self.texts: TextModel | None = None  # how a text becomes a row that the hasher takes
        self.droppable = False  # whether it lies in the folder where clients make and drop collections
        self.n_bits = collection.n_bits
        self._label_field = label_field
        self._looked_at: tuple[object, Health] | None = None
        self.look_at_hasher()

    def look_at_hasher(self) -> None:
        """Note what the hasher takes; a client may have replaced it."""
        self.hasher = self.collection.hasher
        self.by_tables = hasattr(self.hasher, "query_codes")  # codes are searched by score tables, as of OpenHasher
        takes_vectors = self.hasher is not None and not has_backbone(self.hasher)
        self.n_features = int(self.hasher.n_features_in_) if takes_vectors else None
        # A migrated collection has the codes of its first hasher.
        first = self.hasher
        while (before := getattr(first, "previous_", None)) is not None:
            first = before
        fingerprint = self.collection._store.spec.fingerprint
        self.codes_by = fingerprint if first is self.hasher else models.fingerprint(first)
        if self.texts is not None and getattr(self.hasher, "text_model_", None) != self.texts.name:
            self.texts = None

    def probe(self) -> None:
        """Search once. This brings the codes into memory, and raises what any search would raise."""
        self.collection.search(codes=np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8), k=1)

    def label_field(self) -> str | None:
        """Return the payload field with labels: as given, else the collection's, else one that the first rows have."""
        if self._label_field is None and (known := self.collection.label_field) is not None:
            return known
        if self._label_field is None:
            for rows in self.collection.scan(_ROWS_FOR_LABELS):
                fields = [name for name in LABEL_FIELDS if any(name in payload for payload in rows.payloads)]
                self._label_field = fields[0] if fields else None
                break
        return self._label_field

    def version(self) -> object:
        """Return a value that is another one once rows have changed.

        Where the storage tells no version, the value changes with the number of rows and every minute.
        """
        info = self.collection.info()
        return info.get("version") or (info["rows"], time.monotonic() // _UNVERSIONED_SECONDS)

    def health(self) -> Health:
        """Return what ``Collection.health`` tells; codes are looked at again only once rows have changed."""
        version, known = self.version(), self._looked_at
        if known is None or known[0] != version:
            known = self._looked_at = version, self.collection.health()
        return known[1]._replace(rows=self.collection.count(), **self.collection._encoder.log.figures())

    def filter_warnings(self, where: dict[str, Any] | None, found: bool) -> dict[str, list[str]]:
        """Return sentences about fields that cannot match, as ``warnings``, if a filter has found nothing."""
        told = [] if found or not where else self.collection.filter_advice(where)
        return {"warnings": [sentence[:LONGEST_MESSAGE] for sentence in told]} if told else {}

    def ids(self) -> NDArray[Any]:
        """Return all ids, sorted. Texts are read with the payloads, which takes longer than numbers take."""
        numbered = self.collection.id_kind == "int"
        if numbered:
            every = Query(np.zeros((1, n_bytes(self.n_bits)), dtype=np.uint8))
            try:
                return np.sort(self.collection._store.within(every, self.n_bits).hits.ids)
            except UnsupportedByStoreError:
                pass
        none = np.empty(0, dtype=np.int64 if numbered else object)
        return np.sort(np.concatenate([none, *(rows.ids for rows in self.collection.scan())]))

    def sampled_items(self, ids: NDArray[Any], count: int) -> list[Item]:
        """Return at most ``count`` items by id, drawn at random from these ids; the same ones each time."""
        sample = ids if len(ids) <= count else np.sort(np.random.default_rng(0).choice(ids, count, replace=False))
        return [item for item in self.collection.get(sample, vectors=False) if item is not None]

    def id_in_address(self, text: str) -> Any:
        """Return the id that an address ends in, or has as a parameter."""
        if self.collection.id_kind == "int":
            if not (text.isascii() and text.isdigit() and int(text[:20]) <= _MAX_NUMBER):
                raise bad("bad_id", f"id: the ids of {self.name} are whole numbers from 0. Got {text[:60]!r} instead.")
            return int(text)
        return self.ids_in_body([text])[0]

    def ids_in_body(self, ids: Sequence[int | str]) -> Any:
        """Return ids that a client sent, after checking that they are of the collection's kind."""
        try:
            return ids_of_kind(self.collection.id_kind).array(ids).tolist()
        except ValueError as error:
            raise bad("bad_id", f"ids: {error}") from error

    def rows_of_texts(self, texts: Sequence[str], limits: Limits) -> Float32Array:
        """Return the rows that the text model makes of texts that a client sent."""
        if self.texts is None:
            why = "its hasher names no text model, or the server did not load it"
            raise bad("no_texts", f"The collection {self.name} takes no texts: {why}.")
        if len(texts) > limits.texts:
            raise ApiError(413, "too_many", f"At most {limits.texts} texts are taken at once. Got {len(texts):,}.")
        if not all(map(str.strip, texts)):
            raise bad("bad_request", "texts: each must be a text that is not empty.")
        longest = max(map(len, texts))
        if longest > limits.text_chars:
            raise ApiError(413, "too_large", f"A text may have {limits.text_chars:,} characters. Got {longest:,}.")
        return self.texts.rows(texts)

    def facts(self, may_write: bool) -> dict[str, Any]:
        """Return what the list of collections tells about this one."""
        has_vectors = self.collection.vector_size is not None
        label_field, hasher = self.label_field(), None
        if self.hasher is not None:
            about = self.hasher.info
            hasher = {"method": about.name, "title": about.title, "n_features": self.n_features}
        return {
            "name": self.name,
            "rows": self.collection.count(),
            "n_bits": self.n_bits,
            "hasher": hasher,
            "has_vectors": has_vectors,
            "has_images": self.pictures is not None,
            "has_labels": label_field is not None,
            "label_field": label_field,
            "can": {
                "vector": self.n_features is not None,
                "image": self.features is not None,
                "text": self.texts is not None,
                "asymmetric": self.hasher is not None and not self.by_tables,
                "emphasis": self.by_tables,
                "rescore": has_vectors and self.n_features is not None,
                "write": may_write and self.writable,
                "drop": may_write and self.droppable,
            },
            "kind": self.collection.info()["kind"],
            "ids": self.collection.id_kind,
        }


def labels_of(payload: Mapping[str, Any] | None, field: str | None) -> list[str]:
    """Return the labels in a field of a payload as text; none where the field is missing or holds something else."""
    value = None if field is None else (payload or {}).get(field)
    listed = value if isinstance(value, list) else [value]
    return [_text(label) for label in listed if isinstance(label, (str, int, float))]


def _text(label: str | float) -> str:
    """Return the label as JavaScript writes it, so that the page and the service name it alike."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return str(int(label))
    return str(label)


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
        path = images or display.pictures_in(folder)
        pictures = None if path is None else Pictures(path, display.image_field or DEFAULT_FIELD)
        row_features = image_features(features or display.image_features, collection.hasher)
        return ServedCollection(
            name or default_name(uri), collection, pictures, row_features, label_field, writable=not read_only
        )
    except BaseException:
        collection.close()
        raise


def default_name(uri: str) -> str:
    """Return the last part of a folder or of a URI, or its ``collection=``; "-" replaces what a name cannot have."""
    found = re.search(r"[?&]collection=([^&]+)", uri)
    last = found[1] if found else Path(uri.partition("?")[0]).resolve().name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", last)[:64].strip(".") or "collection"
