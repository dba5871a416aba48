"""The code format: signs, packed bytes, Hamming distances.

A code is a row of ``n_bits`` bits. In memory it has three forms:

- signs: int8 in {-1, +1}, which solvers use;
- bits: uint8 in {0, 1}, which ``transform`` returns (bit = sign > 0);
- packed: uint8 bytes, ``ceil(n_bits / 8)`` per row, which ``encode`` returns and files hold.

Packed rows are padded with zero bits to whole bytes, so every row begins at a byte. Bit 0 is the most significant bit
of byte 0 (``bit_order="big"``, as in NumPy, pgvector and sentence-transformers); ``bit_order="little"`` is the order of
faiss, Milvus and MATLAB's ``compactbit``. Hamming distances are the same in both.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

BitOrder = Literal["big", "little"]
MAX_BITS = 1024

_BLOCK_BYTES = 64 * 2**20


def sign(values: ArrayLike) -> NDArray[np.int8]:
    """Return signs in {-1, +1} with sgn(0) = +1. NaN has no sign and raises ValueError."""
    values = np.asarray(values)
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        raise ValueError("Cannot take the sign of NaN.")
    return np.where(values >= 0, np.int8(1), np.int8(-1))


def n_bytes(n_bits: int) -> int:
    """Return the number of bytes of a packed row of ``n_bits``."""
    return -(-n_bits // 8)


def pack(bits: ArrayLike, bit_order: BitOrder = "big") -> NDArray[np.uint8]:
    """Pack rows of bits ({0, 1} or booleans) or signs ({-1, +1}) into bytes.

    Parameters
    ----------
    bits : array-like (rows, n_bits)
    bit_order : {"big", "little"}, default="big"

    Returns
    -------
    uint8 array (rows, ceil(n_bits / 8))

    Raises
    ------
    ValueError
        If ``bits`` is not 2-D or holds other values.

    Examples
    --------
    >>> pack([[1, 0, 0, 0, 0, 0, 0, 0, 1]]).tolist()
    [[128, 128]]
    """
    bits = np.asarray(bits)
    if bits.ndim != 2:
        raise ValueError(f"Codes to pack must be a 2-D array (rows, bits). Got {bits.ndim}-D instead.")
    positive = bits > 0
    zeros_and_ones = bits.dtype == bool or not np.any((bits != 0) & (bits != 1))
    if not zeros_and_ones and np.any((bits != -1) & (bits != 1)):
        raise ValueError("Codes to pack must hold only 0 and 1, or only -1 and +1.")
    return np.packbits(positive, axis=1, bitorder=_checked(bit_order))


def unpack(codes: ArrayLike, n_bits: int, bit_order: BitOrder = "big") -> NDArray[np.uint8]:
    """Return the bits {0, 1} of packed rows (rows, n_bits), without the padding."""
    codes = check_packed(codes, n_bits)
    return np.unpackbits(codes, axis=1, count=n_bits, bitorder=_checked(bit_order))


def unpack_signs(codes: ArrayLike, n_bits: int, bit_order: BitOrder = "big") -> NDArray[np.int8]:
    """Return the signs {-1, +1} of packed rows (rows, n_bits)."""
    return unpack(codes, n_bits, bit_order).astype(np.int8) * np.int8(2) - np.int8(1)


def swap_bit_order(codes: ArrayLike) -> NDArray[np.uint8]:
    """Return packed rows in the other bit order (big to little or back). Padding stays zero."""
    codes = np.asarray(codes, dtype=np.uint8)
    return _MIRRORED[codes]


def from_int8(codes: ArrayLike) -> NDArray[np.uint8]:
    """Return packed codes out of bytes that were shifted to int8 by -128, as sentence-transformers does.

    ``SentenceTransformer.encode(..., precision="binary")`` gives such codes; ``precision="ubinary"`` gives plain ones.

    Parameters
    ----------
    codes : int8 array (rows, ceil(n_bits / 8))

    Returns
    -------
    uint8 array of the same shape

    Raises
    ------
    ValueError
        If the codes are not a 2-D array of int8.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import codes
    >>> codes.from_int8(np.array([[-128, 127]], dtype=np.int8))
    array([[  0, 255]], dtype=uint8)
    """
    array = np.asarray(codes)
    if array.dtype != np.int8 or array.ndim != 2:
        raise ValueError(f"Shifted codes must be a 2-D array of int8. Got {array.ndim}-D {array.dtype} instead.")
    return array.view(np.uint8) ^ np.uint8(128)


def check_packed(codes: ArrayLike, n_bits: int | None = None, name: str = "codes") -> NDArray[np.uint8]:
    """Return the codes as a 2-D uint8 array; raise ValueError if they are not packed rows of ``n_bits``."""
    array = np.asarray(codes)
    if array.dtype != np.uint8 or array.ndim != 2:
        advice = ": hl.codes.from_int8 turns int8 codes into uint8 ones" if array.dtype == np.int8 else ""
        found = f"{array.ndim}-D {array.dtype} instead{advice}"
        raise ValueError(f"{name} must be packed codes: a 2-D uint8 array. Got {found}.")
    if n_bits is not None:
        if not 1 <= n_bits <= MAX_BITS:
            raise ValueError(f"n_bits must be between 1 and {MAX_BITS}. Got {n_bits} instead.")
        if array.shape[1] != n_bytes(n_bits):
            raise ValueError(
                f"{name} of {n_bits} bits must have {n_bytes(n_bits)} bytes per row. Got {array.shape[1]} instead."
            )
    return array


def check_codes(codes: ArrayLike, n_bits: int, bit_order: BitOrder = "big", name: str = "codes") -> NDArray[np.uint8]:
    """Return the codes like ``check_packed``; raise ValueError also if a padding bit is set.

    Padding bits that are not zero would count as differences between codes.
    """
    array = check_packed(codes, n_bits, name)
    spare, is_big = -n_bits % 8, _checked(bit_order) == "big"
    if spare and len(array):
        mask = (1 << spare) - 1 if is_big else 0xFF ^ ((1 << (8 - spare)) - 1)
        if (array[:, -1] & np.uint8(mask)).any():
            padding = f"{spare} zero bits per row (bit_order {bit_order!r})"
            raise ValueError(f"{name} of {n_bits} bits must end in {padding}.")
    return array


def as_words(codes: ArrayLike) -> NDArray[np.uint64]:
    """Return packed rows as zero-padded 64-bit words, on which XOR and popcount are fast."""
    codes = np.ascontiguousarray(codes, dtype=np.uint8)
    width = max(8, -(-codes.shape[1] // 8) * 8)
    if codes.shape[1] != width:
        padded = np.zeros((codes.shape[0], width), dtype=np.uint8)
        padded[:, : codes.shape[1]] = codes
        codes = padded
    return codes.view(np.uint64)


def word_distances(queries: NDArray[np.uint64], database: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return all Hamming distances between two sets of ``as_words`` rows. The caller splits large sets into blocks."""
    distances = np.bitwise_count(queries[:, :1] ^ database[None, :, 0]).astype(np.uint16)
    for word in range(1, queries.shape[1]):
        distances += np.bitwise_count(queries[:, word : word + 1] ^ database[None, :, word])
    return distances


def hamming_distances(queries: ArrayLike, database: ArrayLike) -> NDArray[np.uint16]:
    """Return the Hamming distances (n_queries, n_database) between packed rows.

    Examples
    --------
    >>> hamming_distances(pack([[1, 1, 0]]), pack([[1, 1, 0], [0, 0, 1]])).tolist()
    [[0, 3]]
    """
    queries = check_packed(queries, name="queries")
    database = check_packed(database, name="database")
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            f"Both sides must have the same number of bytes per row. Got {queries.shape[1]} and {database.shape[1]}."
        )
    query_words, database_words = as_words(queries), as_words(database)
    result = np.empty((len(queries), len(database)), dtype=np.uint16)
    step = max(1, _BLOCK_BYTES // (8 * max(1, len(database))))
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        result[block] = word_distances(query_words[block], database_words)
    return result


def _checked(bit_order: BitOrder) -> BitOrder:
    if bit_order not in ("big", "little"):
        raise ValueError(f"bit_order must be 'big' or 'little'. Got {bit_order!r} instead.")
    return bit_order


_MIRRORED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")[:, 0]
