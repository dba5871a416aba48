"""Sources of the rows of a bench: a data set of the catalog by its name, or a file of the user."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hashlearn.data.catalog import DATA_SETS, load
from hashlearn.data.plain import arrays
from hashlearn.data.pool import Pool
from hashlearn.data.texts import embedded_pool, read_texts
from hashlearn.files.arrays import FileError, split_part
from hashlearn.files.tables import TABLES

_HASH_LETTERS = 8


@dataclass(frozen=True)
class DataSource:
    """A data set by name, or a file with its labels.

    Parameters
    ----------
    data : str
        A name from ``DATA_SETS``, or a file of features or texts. The file may name a part: ``mine.npz:X``.
    labels : str, optional
        A file of labels, or the column or array of labels inside the file. Files need it.
    text : str, optional
        The column of texts, if the file holds texts.
    embed : str, optional
        The sentence-transformers model that embeds the texts.
    """

    data: str
    labels: str | None = None
    text: str | None = None
    embed: str | None = None

    def __post_init__(self) -> None:
        if self.data in DATA_SETS:
            if self.labels or self.text or self.embed:
                raise ValueError(
                    f"{self.data} is a data set that has its labels: labels, text and embed are for files."
                )
            return
        if not split_part(self.data)[0].is_file():
            raise ValueError(
                f"The data set must be a file, or one of {', '.join(DATA_SETS)}. Got {self.data!r} instead."
            )
        if self.labels is None:
            raise ValueError(f"{self.data} needs labels: a file of them, or the name of a column or array in it.")
        if (self.text is None) != (self.embed is None):
            raise ValueError("text (a column) and embed (a model) go together: give both or neither.")

    @property
    def title(self) -> str:
        """The name of a data set, or that of the file with a hash of what it holds, because runs are kept by it."""
        return self.data if self.data in DATA_SETS else f"{Path(self.data).name}-{_content_hash(self)}"

    def pool(self, data_dir: str | None = None, folder: str | Path = ".") -> Pool:
        """Load all rows. Embeddings of texts are computed once and kept in ``folder``."""
        if self.data in DATA_SETS:
            return load(self.data, data_dir)
        if self.text is None:
            return arrays(self._features(), self._label_file(), name=Path(self.data).name)
        texts = read_texts(self.data, self.text, self.labels, missing=True)
        kept = Path(folder) / f"embeddings-{_content_hash(self)}.npy"
        return embedded_pool(Path(self.data).name, texts, kept, str(self.embed))

    def _labels_are_a_file(self) -> bool:
        return split_part(str(self.labels))[0].is_file()

    def _label_file(self) -> str:
        return str(self.labels) if self._labels_are_a_file() else f"{split_part(self.data)[0]}:{self.labels}"

    def _features(self) -> str:
        path, part = split_part(self.data)
        inside = part is None and path.suffix.lower() in TABLES and not self._labels_are_a_file()
        return f"{self.data}:-{self.labels}" if inside else self.data


@lru_cache(maxsize=8)
def _content_hash(source: DataSource) -> str:
    digest = hashlib.sha256(repr(source).encode())
    for named in [source.data, str(source.labels)] if source._labels_are_a_file() else [source.data]:
        file = split_part(named)[0]
        try:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise FileError(f"{file} cannot be read: {error.strerror}.") from error
    return digest.hexdigest()[:_HASH_LETTERS]
