"""BANKING77 and CLINC150 as embeddings: from their public texts, or from files of embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hashlearn.data.embed import MINILM, embed_texts
from hashlearn.data.features import writable_folder
from hashlearn.data.plain import file_there
from hashlearn.data.pool import TEST, TRAIN, Pool
from hashlearn.data.texts import Texts, banking77_texts, clinc150_texts


def banking77(path: Path) -> Pool:
    """The texts of BANKING77 as embeddings of all-MiniLM-L6-v2, computed at the first call."""
    return embedded_pool("BANKING77", banking77_texts(path), path / "banking77-minilm.npy")


def clinc150(path: Path) -> Pool:
    """The texts of CLINC150 as embeddings of all-MiniLM-L6-v2, computed at the first call."""
    return embedded_pool("CLINC150", clinc150_texts(path), path / "clinc150-minilm.npy")


def embedded_pool(name: str, texts: Texts, file: Path, model: str = MINILM) -> Pool:
    """A pool of texts with classes. The embeddings are kept in the file, or in the cache if its folder is read-only."""
    folder = writable_folder(file.parent)
    folder.mkdir(parents=True, exist_ok=True)
    X = embed_texts(texts.texts, model, folder / file.name)
    values, numbers = np.unique(np.asarray(texts.labels), return_inverse=True)
    return Pool(name, X, numbers.astype(np.int64), tuple(map(str, values.tolist())), part=texts.part)


def banking77_minilm(path: Path) -> Pool:
    """BANKING77 from ``banking77_minilm.npz`` (X, y, part)."""
    return _embedding_file(file_there(path, "banking77_minilm.npz", "BANKING77"), "BANKING77")


def clinc150_minilm(path: Path) -> Pool:
    """CLINC150 from ``clinc150_minilm.npz`` (X, y, part), without the rows out of scope."""
    return _embedding_file(file_there(path, "clinc150_minilm.npz", "CLINC150"), "CLINC150")


def _embedding_file(file: Path, name: str) -> Pool:
    with np.load(file, allow_pickle=False) as archive:
        part = archive["part"]
        known = ~np.char.startswith(part, "oos")
        values, numbers = np.unique(archive["y"][known], return_inverse=True)
        X = archive["X"][known].astype(np.float32)
    official = np.where(part[known] == "test", TEST, TRAIN).astype(np.uint8)
    return Pool(f"{name} MiniLM", X, numbers.astype(np.int64), tuple(map(str, values)), part=official)
