"""Write all rows of a collection to a file: .npy (codes and ids), .parquet (everything) or .faiss."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import BitOrder, n_bytes, swap_bit_order
from hashlearn.collection.ids import IdKind, ids_of_kind
from hashlearn.files import CodeInfo, CodeWriter, FileError, check_output, sidecar, written_whole
from hashlearn.files.arrays import EXTRA
from hashlearn.progress import report

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

SUFFIXES = (".npy", ".parquet", ".faiss")
_BATCH_ROWS = 50_000


def ids_beside(path: Path) -> Path:
    """Return where the ids of exported codes lie: codes.npy has codes.ids.npy."""
    return path.with_suffix(".ids.npy")


def export(self: Collection, path: str | os.PathLike[str], *, bit_order: BitOrder | None = None) -> int:
    """Write all rows to a file, whole or not at all.

    A .npy file holds codes, with their facts in .npy.json and the ids in .ids.npy. A .parquet file holds id, code,
    payload (JSON text) and vector. A .faiss file is a flat binary index of faiss with the ids, and its facts are in
    .faiss.json. Ids that are texts or UUIDs are text in .ids.npy and .parquet. In .faiss they are numbers, and
    .ids.json has the text of each number.

    Parameters
    ----------
    path : str or path-like
    bit_order : {"big", "little"}, default=None
        Of the codes in .npy (None: "big") and in .faiss (None: "little", as faiss packs bits, so queries to it must
        be packed in this order too). The facts beside the file name it. In .parquet it is always "big".

    Returns
    -------
    int
        How many rows there were.
    """
    if bit_order not in (None, "big", "little"):
        raise ValueError(f"bit_order must be 'big', 'little' or None. Got {bit_order!r} instead.")
    file = check_output(os.fspath(path), SUFFIXES)
    kind = file.suffix.lower()
    if kind == ".parquet":
        if bit_order == "little":
            raise ValueError(f"The codes in {file} can only have bit_order 'big': export a .npy file for 'little'.")
        return _parquet(self, file)
    ids, codes = _codes(self)
    order: BitOrder = bit_order or ("little" if kind == ".faiss" else "big")
    source = None if self.hasher is None else "hashed"
    info = CodeInfo.for_rows(self.n_bits, "packed", order, len(ids), source=source)
    if kind == ".faiss":
        _faiss(self.id_kind, ids, codes if order == "big" else swap_bit_order(codes), file, info)
        return len(ids)
    with CodeWriter.to(file, info) as writer, written_whole(ids_beside(file)) as stream:
        writer.append(codes)
        np.lib.format.write_array(stream, _as_plain(ids), allow_pickle=False)
    return len(ids)


def _codes(collection: Collection) -> tuple[np.ndarray, np.ndarray]:
    """Return all ids and codes. They are held in memory at once: they are far smaller than the features of the rows."""
    ids, codes, total, done = [], [], len(collection), 0
    for rows in collection.scan(_BATCH_ROWS):
        ids.append(rows.ids)
        codes.append(rows.codes)
        done += len(rows.ids)
        report("exporting", done, max(done, total))
    return (
        np.concatenate(ids) if ids else np.empty(0, dtype=np.int64),
        np.concatenate([np.empty((0, n_bytes(collection.n_bits)), dtype=np.uint8), *codes]),
    )


def _as_plain(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids that a .npy file can hold: numbers, or text."""
    return np.array([str(one) for one in ids.tolist()], dtype=np.str_) if ids.dtype == object else ids


def _faiss(id_kind: IdKind, ids: NDArray[Any], codes: np.ndarray, path: Path, info: CodeInfo) -> None:
    """Write the index, and beside it a file with the facts that a file of faiss cannot hold.

    faiss knows only numbers, so texts and UUIDs go to a file of their own, .ids.json, by the number of their row.
    """
    import faiss

    flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index = faiss.IndexBinaryIDMap2(flat)
    numbers = ids_of_kind(id_kind).numbers(ids)
    index.add_with_ids(np.ascontiguousarray(codes), numbers)
    if id_kind != "int":
        texts = dict(zip(map(str, numbers.tolist()), map(str, ids.tolist()), strict=True))
        with written_whole(path.with_suffix(".ids.json")) as stream:
            stream.write(json.dumps({"ids": id_kind, "texts": texts}, ensure_ascii=False).encode())
    # The index is closed last, so it is renamed last: it never lies beside the facts of an older index.
    with written_whole(path) as stream, written_whole(sidecar(path)) as facts:
        stream.write(faiss.serialize_index_binary(index).data)
        facts.write(info.as_json())


def _parquet(collection: Collection, path: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise FileError(f"Writing {path} needs pyarrow: {EXTRA}.") from error
    id_type = pa.int64() if collection.id_kind == "int" else pa.string()
    fields = [("id", id_type), ("code", pa.binary(n_bytes(collection.n_bits))), ("payload", pa.string())]
    size = collection.vector_size
    if size is not None:
        fields.append(("vector", pa.list_(pa.float32(), size)))
    facts = {"hashlearn": json.dumps({"bits": collection.n_bits, "bit_order": "big"})}
    schema = pa.schema(fields, metadata=facts)
    total, done = len(collection), 0
    with written_whole(path) as stream, parquet.ParquetWriter(stream, schema) as writer:
        for rows in collection.scan(_BATCH_ROWS, vectors=True):
            columns = [
                pa.array(_as_plain(rows.ids), id_type),
                pa.array([code.tobytes() for code in rows.codes], schema.field("code").type),
                pa.array([json.dumps(row, ensure_ascii=False) if row else None for row in rows.payloads], pa.string()),
            ]
            if rows.vectors is not None and size is not None:
                columns.append(pa.FixedSizeListArray.from_arrays(pa.array(rows.vectors.ravel()), size))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            done += len(rows.ids)
            report("exporting", done, max(done, total))
    return done
