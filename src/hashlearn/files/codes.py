"""Code files: .npy with a JSON sidecar, or .npz with the same facts inside.

A sidecar ``codes.npy.json`` says how many bits a code has, in which order they lie in the bytes and how rows are
padded; without it a 12-bit code cannot be told from a 16-bit one, nor one bit order from the other.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.files.arrays import FileError, NpzArray, npz_keys, open_part, split_part
from hashlearn.files.output import check_output, sidecar, written_whole
from hashlearn.files.read import shard_names

Format = Literal["packed", "bits", "projections", "expected"]
FLOAT_FORMATS = ("projections", "expected")
CODE_SUFFIXES = (".npy", ".npz")
_DTYPES = {"packed": np.uint8, "bits": np.uint8, "projections": np.float32, "expected": np.float32}


@dataclass(frozen=True)
class CodeInfo:
    """What travels beside a code file.

    ``padding`` is the number of zero bits that end each packed row; ``bit_order`` is None unless packed; ``source`` is
    "hashed" (by the model's function), "learned" (by the solver, with labels) or None where nobody knows.
    """

    bits: int
    format: Format = "packed"
    bit_order: codes.BitOrder | None = "big"
    padding: int = 0
    rows: int = 0
    source: str | None = None
    model: str | None = None
    hashlearn: str | None = None

    @classmethod
    def for_rows(cls, bits: int, format: Format, bit_order: codes.BitOrder, rows: int, **more: str | None) -> CodeInfo:
        packed = format == "packed"
        padding = codes.n_bytes(bits) * 8 - bits if packed else 0
        return cls(bits, format, bit_order if packed else None, padding, rows, **more)

    def as_json(self) -> bytes:
        """Return the facts as they stand in a sidecar."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    @property
    def width(self) -> int:
        return codes.n_bytes(self.bits) if self.format == "packed" else self.bits


@dataclass(frozen=True)
class CodeFile:
    """Codes as the library wants them: packed with bit 0 first, or floats: projections or expected bits."""

    name: str
    codes: NDArray[Any]
    info: CodeInfo


class CodeWriter:
    """Appends rows of codes to an open file; see ``CodeWriter.to``."""

    def __init__(self, stream: IO[bytes], info: CodeInfo) -> None:
        self._stream, self._info = stream, info
        self._dtype = np.dtype(_DTYPES[info.format])
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (info.rows, info.width)}
        np.lib.format.write_array_header_1_0(stream, header)
        self._left = info.rows

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows of the file's own format: packed bytes with bit 0 first, bits, or floats."""
        rows = np.ascontiguousarray(rows, dtype=self._dtype)
        if rows.ndim != 2 or rows.shape[1] != self._info.width or len(rows) > self._left:
            raise ValueError(f"Got rows of shape {rows.shape} where {self._left} of {self._info.width} are left.")
        if self._info.bit_order == "little":
            rows = codes.swap_bit_order(rows)
        self._left -= len(rows)
        self._stream.write(rows.tobytes())

    @classmethod
    @contextmanager
    def to(cls, name: str | Path, info: CodeInfo) -> Iterator[CodeWriter]:
        """Yield a writer to ``name``; the file and its sidecar appear when all rows are there, or not at all."""
        path = check_output(name, CODE_SUFFIXES)
        facts = info.as_json()
        with ExitStack() as stack:
            # Closed last, so renamed last: codes never lie beside facts of an older file without being noticed.
            stream = stack.enter_context(written_whole(path))
            if path.suffix.lower() == ".npy":
                stack.enter_context(written_whole(sidecar(path))).write(facts)
            else:
                archive = stack.enter_context(zipfile.ZipFile(stream, "w"))
                with archive.open("info.npy", "w") as member:
                    np.lib.format.write_array(member, np.array(facts.decode().strip()), allow_pickle=False)
                stream = stack.enter_context(archive.open("codes.npy", "w", force_zip64=True))
            writer = cls(stream, info)
            yield writer
            if writer._left:
                raise ValueError(f"{path} lacks {writer._left} of its {info.rows} rows.")


def read_codes(name: str | Path, bits: int | None = None, bit_order: codes.BitOrder = "big") -> CodeFile:
    """Read codes of a file by its own facts; ``bits`` and ``bit_order`` are for files that come without any.

    A folder, as ``hashlearn encode`` writes it, or a pattern stands for several files.
    """
    names = shard_names(name, CODE_SUFFIXES)
    if names != [str(name)]:
        return _joined_codes(str(name), [read_codes(one, bits, bit_order) for one in names])
    path, _ = split_part(name)
    array = open_part(name, "codes")
    if isinstance(array, NpzArray):
        array = array[...]
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        raise FileError(f"{name} must hold a 2-D array of codes.")
    info = _info(path, array, bits, bit_order)
    if array.shape != (info.rows, info.width) or array.dtype != _DTYPES[info.format]:
        raise FileError(
            f"{name} holds {array.dtype} {array.shape}, but {info.rows} rows of {info.bits} bits ({info.format}) "
            f"would be {np.dtype(_DTYPES[info.format])} {(info.rows, info.width)}."
        )
    if info.format == "bits":
        if array.max(initial=0) > 1:
            raise FileError(f"{name} must hold bits 0 and 1.")
        array = codes.pack(array)
    elif info.bit_order == "little":
        array = codes.swap_bit_order(array)
    return CodeFile(str(name), array, replace(info, bit_order=None if info.format in FLOAT_FORMATS else "big"))


def _joined_codes(name: str, parts: list[CodeFile]) -> CodeFile:
    """Stack the codes of several files, which must agree in bits and format."""
    first = parts[0]
    for part in parts:
        if (part.info.bits, part.info.format) != (first.info.bits, first.info.format):
            raise FileError(
                f"{part.name} holds {part.info.format} codes of {part.info.bits} bits, but {first.name} "
                f"{first.info.format} codes of {first.info.bits}."
            )
    rows = np.concatenate([part.codes for part in parts])
    return CodeFile(name, rows, replace(first.info, rows=len(rows)))


def _info(path: Path, array: NDArray[Any], bits: int | None, bit_order: codes.BitOrder) -> CodeInfo:
    facts: Any = None
    where = sidecar(path)
    if path.suffix.lower() == ".npz":
        facts, where = str(NpzArray(path, "info")[...]) if "info" in npz_keys(path) else None, path
    elif where.exists():
        facts = where.read_bytes()
    if facts is not None:
        return _parsed(facts, where)
    if array.dtype.kind == "f":
        raise FileError(f"{path} holds float rows and no {where.name} beside it says that they are codes.")
    if bits is None:
        raise FileError(f"{path} does not say how many bits its codes have (no {where.name} beside it): give the bits.")
    format: Format = "packed" if array.shape[1] == codes.n_bytes(bits) else "bits"
    return CodeInfo.for_rows(bits, format, bit_order, len(array))


def _parsed(facts: str | bytes, where: Path) -> CodeInfo:
    try:
        raw = json.loads(facts)
        info = CodeInfo(**{key: raw[key] for key in CodeInfo.__dataclass_fields__ if key in raw})
        valid = (
            isinstance(info.bits, int)
            and 1 <= info.bits <= codes.MAX_BITS
            and isinstance(info.rows, int)
            and info.format in get_args(Format)
            and info.bit_order in (("big", "little") if info.format == "packed" else (None,))
        )
    except (ValueError, TypeError) as error:
        raise FileError(f"{where} is not a description of codes.") from error
    if not valid:
        raise FileError(f"{where} describes codes that cannot be: {info.bits} bits, {info.format}, {info.bit_order}.")
    return info
