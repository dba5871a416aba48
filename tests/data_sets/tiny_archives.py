"""Small archives of the exact official layouts."""

import io
import pickle
import tarfile

import numpy as np


def planes(n_rows, seed=0):
    """Rows of 3072 bytes as CIFAR stores them: a red, a green and a blue plane."""
    return np.random.default_rng(seed).integers(0, 256, (n_rows, 3072), dtype=np.uint8)


def python2_pickle(batch):
    """A dictionary in the very opcodes that Python 2 wrote: byte strings as U and T, NumPy by its old module name."""
    return b"\x80\x02}(" + b"".join(_old(key) + _old(value) for key, value in batch.items()) + b"u."


def _old(value):
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return b"U" + bytes([len(raw)]) + raw
    if isinstance(value, int):
        return b"K" + bytes([value])
    if isinstance(value, list):
        return b"](" + b"".join(map(_old, value)) + b"e"
    shape = b"".join(b"M" + size.to_bytes(2, "little") for size in value.shape) + b"\x86"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    content = b"T" + value.size.to_bytes(4, "little") + value.tobytes()
    return made + b"(K\x01" + shape + dtype + b"\x89" + content + b"tb"


def python3_pickle(batch):
    """The same as Python 3 writes it for Python 2."""
    return pickle.dumps(batch, protocol=2)


def write_tar(path, members):
    """A .tar.gz of name → bytes."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def cifar10_members(kind, n_rows=4):
    """name → bytes of a tiny CIFAR-10 archive; also the rows and labels in it, training batches first."""
    members, pixels, labels = {}, [], []
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        rows = planes(n_rows, number)
        y = [(number + row) % 10 for row in range(n_rows)]
        pixels.append(rows)
        labels.extend(y)
        if kind == "python":
            files = [f"{name}_{row}.png" for row in range(n_rows)]
            batch = {b"batch_label": name.encode(), b"labels": y, b"data": rows, b"filenames": files}
            members[f"cifar-10-batches-py/{name}"] = python2_pickle(batch)
        else:
            records = np.column_stack([np.array(y, dtype=np.uint8), rows])
            members[f"cifar-10-batches-bin/{name}.bin"] = records.tobytes()
    return members, np.concatenate(pixels), np.array(labels)
