"""Saving and loading: every kind, mapped or not, and every way in which a file can be damaged."""

import hashlib
import json
import zlib

import naive_index as brute
import numpy as np
import pytest

from hashlearn.index import Index, IndexFileError, build_file

SENTENCE = r"^[^\n]*codes.index is (damaged|not a hashlearn index file)[^\n]*\.$"
KINDS = ("flat", "ivf")


def _saved(path, kind="flat", n=300, n_bits=65, **settings):
    rng = np.random.default_rng(0)
    codes = brute.random_codes(rng, n, n_bits)
    index = Index(n_bits, kind, **settings)
    index.add(codes, rng.permutation(1000)[:n])
    index.save(path)
    return index, codes


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_index_answers_the_same_and_goes_on(tmp_path, kind, mmap):
    path = tmp_path / "codes.index"
    index, codes = _saved(path, kind)
    loaded = Index.load(path, mmap=mmap)
    assert loaded.info() == index.info()
    before = path.read_bytes()
    for one, two in (
        (index.search(codes[:20], 9), loaded.search(codes[:20], 9)),
        (index.within(codes[:20], 25), loaded.within(codes[:20], 25)),
        (index.search(np.ones((2, 65)), 9), loaded.search(np.ones((2, 65)), 9)),
    ):
        for left, right in zip(one, two, strict=True):
            np.testing.assert_array_equal(left, right)
    for each in (index, loaded):
        each.add(codes[:3])  # new ids count on
        if kind in ("flat", "ivf"):
            first = int(each.search(codes[:1], 1).ids[0, 0])
            each.add(codes[5:6], [first])
            assert each.remove([first]) == 1
    np.testing.assert_array_equal(index.search(codes[:20], 9).ids, loaded.search(codes[:20], 9).ids)
    assert path.read_bytes() == before
    loaded.save(path)  # over the file it is mapped from
    assert len(Index.load(path)) == len(loaded)


@pytest.mark.parametrize("mmap", [True, False])
def test_replacing_a_row_of_a_mapped_file_leaves_the_file(tmp_path, mmap):
    path = tmp_path / "codes.index"
    _, codes = _saved(path)
    before = path.read_bytes()
    loaded = Index.load(path, mmap=mmap)
    first = int(loaded.search(codes[:1], 1).ids[0, 0])
    loaded.add(codes[5:6], [first])
    assert loaded.search(codes[5:6], 1, ids=[first]).distances.tolist() == [[0]]
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_index_and_its_next_id(tmp_path, kind):
    path = tmp_path / "codes.index"
    Index(7, kind, bit_order="little").save(path)
    loaded = Index.load(path)
    assert (len(loaded), loaded.kind, loaded.n_bits, loaded.bit_order) == (0, kind, 7, "little")
    flat = Index(8)
    flat.add(np.zeros((3, 1), dtype=np.uint8))
    flat.remove([2])
    flat.save(path)
    again = Index.load(path)
    again.add(np.zeros((1, 1), dtype=np.uint8))
    assert again.search(np.zeros((1, 1), dtype=np.uint8), 3).ids.tolist() == [[0, 1, 3]]


def test_the_bytes_are_as_documented(tmp_path):
    path = tmp_path / "codes.index"
    index = Index(12)
    index.add(np.array([[1, 16], [2, 32]], dtype=np.uint8), [300, 4])
    index.save(path)
    data = path.read_bytes()
    assert data[:16] == b"hashlearn index\n"
    length = int.from_bytes(data[16:20], "little")
    assert (24 + length) % 64 == 0
    assert int.from_bytes(data[20:24], "little") == zlib.crc32(data[24 : 24 + length])
    assert json.loads(data[24 : 24 + length]) == {
        "bitorder": "big",
        "first_id": 4,
        "id_bytes": 4,
        "kind": "flat",
        "n_bits": 12,
        "n_lists": 0,
        "next_id": 301,
        "rows": 2,
        "settings": {"word_bits": None},
        "version": 1,
    }
    rest = data[24 + length :]
    assert rest[:64] == bytes([2, 32, 1, 16]) + bytes(60)
    assert rest[64:72] == (4).to_bytes(4, "little") + (300).to_bytes(4, "little")
    assert rest[72:] == hashlib.sha256(data[:-32]).digest()


@pytest.mark.parametrize("mmap", [True, False])
def test_every_truncation_is_one_sentence(tmp_path, mmap):
    path = tmp_path / "codes.index"
    _saved(path, n=5, n_bits=12)
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(IndexFileError, match=SENTENCE):
            Index.load(path, mmap=mmap)
        with pytest.raises(IndexFileError):
            Index.load(path, mmap=mmap, verify=False)
    path.write_bytes(data + b"\0")
    with pytest.raises(IndexFileError, match="damaged"):
        Index.load(path, mmap=mmap)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_are_noticed(tmp_path, kind):
    path = tmp_path / "codes.index"
    _saved(path, kind, n=40, n_bits=64)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in np.concatenate([np.arange(24), rng.choice(len(data), 60)]):
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with pytest.raises(IndexFileError, match=SENTENCE):
            Index.load(path, verify=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "written by a newer hashlearn .format 2; this one reads up to 1"),
        ({"version": 0}, "does not describe an index"),
        ({"rows": 10**15}, "not what its header says"),
        ({"rows": -1}, "does not describe an index"),
        ({"n_bits": 0}, "does not describe an index"),
        ({"kind": "tree"}, "does not describe an index"),
        ({"settings": {"x": 1}}, "does not describe an index"),
        ({"settings": {"kind": 1}}, "does not describe an index"),
        ({"bitorder": None}, "does not describe an index"),
        ({"id_bytes": 2}, "does not describe an index"),
    ],
)
def test_headers_that_make_no_sense(tmp_path, change, message):
    path = tmp_path / "codes.index"
    _saved(path, n=5)
    data = path.read_bytes()
    length = int.from_bytes(data[16:20], "little")
    header = json.dumps({**json.loads(data[24 : 24 + length]), **change}).encode().ljust(length + 64)
    lengths = len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little")
    body = data[:16] + lengths + header + data[24 + length : -32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(IndexFileError, match=message):
        Index.load(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no index file"):
        Index.load(tmp_path / "none")
    with pytest.raises(IndexFileError, match="it is a directory"):
        Index.load(tmp_path)
    (tmp_path / "other").write_bytes(b"PK\3\4" * 30)
    with pytest.raises(IndexFileError, match="other is not a hashlearn index file"):
        Index.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        Index(8).save(tmp_path / "no" / "where")
    with pytest.raises(IndexFileError, match="something that is not a file"):
        Index(8).save(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other"]


def test_ids_take_as_few_bytes_as_they_need(tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (100, 8), dtype=np.uint8)
    sizes = {}
    for ids in (range(100), range(7, 107), range(0, 200, 2), range(0, 200 * 2**40, 2**41)):
        index = Index(64)
        index.add(codes, list(ids))
        index.save(tmp_path / "codes.index")
        again = Index.load(tmp_path / "codes.index", verify=True)
        assert again.rows()[0].tolist() == list(ids)
        assert again.search(codes[30], 1).ids.tolist() == [ids[30]]
        sizes[ids] = index.info().bytes
    assert list(sizes.values()) == [800, 800, 1200, 1600]


def _blocks(codes, stop=None, size=30):
    def blocks(first):
        for begin in range(first, len(codes), size):
            if stop is not None and begin >= stop:
                raise KeyboardInterrupt
            yield codes[begin : begin + size]

    return blocks


def test_a_file_is_built_from_blocks_and_goes_on_after_an_interrupt(tmp_path, monkeypatch):
    monkeypatch.setattr("hashlearn.index.file._SYNCED", 400)
    path, codes = tmp_path / "codes.index", brute.random_codes(np.random.default_rng(0), 1000, 60)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        build_file(path, 60, _blocks(codes, stop=500))
    assert not path.exists()
    with pytest.raises(IndexFileError, match="begun with other settings"):
        build_file(path, 64, _blocks(codes))
    with pytest.raises(ValueError, match="4 zero bits"):
        build_file(path, 60, lambda first: [codes | 1])
    assert build_file(path, 60, _blocks(codes), progress=lambda *step: seen.append(step)) == 1000
    assert 300 < seen[0][1] <= 510  # rows that were durable are not asked for again
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["codes.index"]
    index = Index.load(path, verify=True)
    np.testing.assert_array_equal(index.rows()[0], np.arange(1000))
    np.testing.assert_array_equal(index.rows()[1], codes)
    index.add(codes[:1])
    assert index.search(codes[0], 2).ids.tolist() == [0, 1000]


def test_a_file_of_no_rows_is_built(tmp_path):
    assert build_file(tmp_path / "codes.index", 8, lambda first: []) == 0
    assert len(Index.load(tmp_path / "codes.index", verify=True)) == 0
