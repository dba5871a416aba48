"""Code files: exact bytes, the facts beside them, and nothing half-written."""

import json
import zipfile

import numpy as np
import pytest

from hashlearn import codes, files

BITS = np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]], dtype=np.uint8)


@pytest.mark.parametrize(("order", "raw"), [("big", bytes([128, 192, 1, 16])), ("little", bytes([1, 3, 128, 8]))])
def test_packed_code_file_layout(order, raw, tmp_path):
    path = tmp_path / "c.npy"
    info = files.CodeInfo.for_rows(12, "packed", order, 2, source="hashed", model="m.hl", hashlearn="9")
    with files.CodeWriter.to(path, info) as writer:
        writer.append(codes.pack(BITS[:1]))
        writer.append(codes.pack(BITS[1:]))
    assert path.read_bytes()[128:] == raw
    assert np.load(path).shape == (2, 2)
    assert json.loads(files.sidecar(path).read_text()) == {
        "bits": 12,
        "format": "packed",
        "bit_order": order,
        "padding": 4,
        "rows": 2,
        "source": "hashed",
        "model": "m.hl",
        "hashlearn": "9",
    }
    back = files.read_codes(path)
    np.testing.assert_array_equal(back.codes, codes.pack(BITS))
    assert (back.info.bits, back.info.bit_order, back.info.source) == (12, "big", "hashed")


@pytest.mark.parametrize("n_bits", [1, 7, 8, 12, 63, 64, 65, 128])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_code_files_there_and_back(n_bits, suffix, tmp_path):
    bits = np.random.default_rng(n_bits).integers(0, 2, (9, n_bits)).astype(np.uint8)
    for format in ("packed", "bits"):
        for order in ("big", "little"):
            path = tmp_path / f"{format}{order}.{suffix}"
            with files.CodeWriter.to(path, files.CodeInfo.for_rows(n_bits, format, order, 9)) as writer:
                writer.append(codes.pack(bits) if format == "packed" else bits)
            back = files.read_codes(path)
            np.testing.assert_array_equal(back.codes, codes.pack(bits))
            assert back.info.padding == (-n_bits % 8 if format == "packed" else 0)
    projections = bits - np.float32(0.5)
    with files.CodeWriter.to(
        tmp_path / f"p.{suffix}", files.CodeInfo.for_rows(n_bits, "projections", "big", 9)
    ) as writer:
        writer.append(projections)
    np.testing.assert_array_equal(files.read_codes(tmp_path / f"p.{suffix}").codes, projections)


def test_npz_codes_hold_their_facts_inside(tmp_path):
    with files.CodeWriter.to(tmp_path / "c.npz", files.CodeInfo.for_rows(12, "packed", "big", 2)) as writer:
        writer.append(codes.pack(BITS))
    assert sorted(zipfile.ZipFile(tmp_path / "c.npz").namelist()) == ["codes.npy", "info.npy"]
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def test_codes_without_facts_need_bits(tmp_path):
    np.save(tmp_path / "c.npy", codes.pack(BITS, bit_order="little"))
    with pytest.raises(files.FileError, match=r"does not say how many bits .*\(no c\.npy\.json beside it\)"):
        files.read_codes(tmp_path / "c.npy")
    np.testing.assert_array_equal(files.read_codes(tmp_path / "c.npy", 12, "little").codes, codes.pack(BITS))
    with pytest.raises(files.FileError, match=r"holds uint8 \(2, 2\), but 2 rows of 30 bits"):
        files.read_codes(tmp_path / "c.npy", 30)


@pytest.mark.parametrize("facts", ["{", "[]", '{"bits": 0}', '{"bits": 12, "bit_order": "middle"}', '{"format": "x"}'])
def test_damaged_sidecar(facts, tmp_path):
    np.save(tmp_path / "c.npy", codes.pack(BITS))
    (tmp_path / "c.npy.json").write_text(facts)
    with pytest.raises(files.FileError, match=r"c\.npy\.json (is not a description of|describes) codes"):
        files.read_codes(tmp_path / "c.npy")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_nothing_half_written(suffix, tmp_path):
    path = tmp_path / f"c.{suffix}"
    path.write_bytes(b"before")
    info = files.CodeInfo.for_rows(12, "packed", "big", 2)
    with pytest.raises(KeyboardInterrupt), files.CodeWriter.to(path, info) as writer:
        writer.append(codes.pack(BITS[:1]))
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="lacks 1 of its 2 rows"), files.CodeWriter.to(path, info) as writer:
        writer.append(codes.pack(BITS[:1]))
    assert path.read_bytes() == b"before"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
