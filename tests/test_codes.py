"""The code format: signs, golden bytes, both bit orders, distances for any number of bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import codes

WIDTHS = [1, 7, 8, 12, 63, 64, 65, 128, 1024]


def test_sign_of_zero_is_plus_one():
    assert codes.sign([-2.0, -0.0, 0.0, 1e-300, -1e-300]).tolist() == [-1, 1, 1, 1, -1]
    with pytest.raises(ValueError, match="NaN"):
        codes.sign([np.nan])


def test_golden_bytes():
    bits = np.array([[1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]])
    assert codes.pack(bits).tobytes() == bytes([0b10110001, 0b10010000, 0b00000001, 0])
    assert codes.pack(bits, "little").tobytes() == bytes([0b10001101, 0b00001001, 0b10000000, 0])
    assert codes.pack(2 * bits - 1).tobytes() == codes.pack(bits).tobytes()


@pytest.mark.parametrize("n_bits", WIDTHS)
def test_golden_bytes_of_every_width(n_bits):
    """Alternating bits from 1: 0xAA bytes, and the padding of the last byte is zero."""
    packed = codes.pack([[(k + 1) % 2 for k in range(n_bits)]])
    whole, rest = divmod(n_bits, 8)
    expected = [0xAA] * whole + ([0xAA & (0xFF << (8 - rest)) & 0xFF] if rest else [])
    assert packed.tolist() == [expected]
    assert packed.shape[1] == codes.n_bytes(n_bits)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 1024), st.integers(0, 5), st.sampled_from(["big", "little"]), st.integers(0, 2**32 - 1))
def test_unpack_undoes_pack(n_bits, rows, order, seed):
    bits = np.random.default_rng(seed).integers(0, 2, (rows, n_bits)).astype(np.uint8)
    packed = codes.pack(bits, order)
    np.testing.assert_array_equal(codes.unpack(packed, n_bits, order), bits)
    np.testing.assert_array_equal(codes.unpack_signs(packed, n_bits, order), 2 * bits.astype(int) - 1)
    other = "little" if order == "big" else "big"
    np.testing.assert_array_equal(codes.swap_bit_order(packed), codes.pack(bits, other))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 1024), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_distances_count_differing_bits(n_bits, n_queries, n_database, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 2, (n, n_bits)) for n in (n_queries, n_database))
    expected = [[sum(int(x != y) for x, y in zip(p, q, strict=True)) for q in b] for p in a]
    for order in ("big", "little"):
        distances = codes.hamming_distances(codes.pack(a, order), codes.pack(b, order))
        assert distances.tolist() == expected


def test_distances_over_several_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (codes.pack(rng.integers(0, 2, (50, 70))) for _ in range(2))
    whole = codes.hamming_distances(a, b)
    monkeypatch.setattr(codes, "_BLOCK_BYTES", 8 * 50 * 7)
    np.testing.assert_array_equal(codes.hamming_distances(a, b), whole)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: codes.pack([1, 0]), "2-D"),
        (lambda: codes.pack([[0, 2]]), "only 0 and 1"),
        (lambda: codes.pack([[0, -1]]), "only 0 and 1"),
        (lambda: codes.pack([[0, 1]], "middle"), "bit_order must be"),
        (lambda: codes.unpack(np.zeros((2, 2), np.uint8), 17), "17 bits must have 3 bytes per row. Got 2"),
        (lambda: codes.unpack(np.zeros((2, 200), np.uint8), 1025), "between 1 and 1024"),
        (lambda: codes.unpack(np.zeros((2, 2)), 16), "2-D uint8"),
        (lambda: codes.hamming_distances(np.zeros((1, 2), np.uint8), np.zeros((1, 3), np.uint8)), "2 and 3"),
    ],
)
def test_errors_are_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_padding_bits_must_be_zero_in_either_bit_order():
    good = np.array([[0xFF, 0xF0], [0x00, 0x10]], dtype=np.uint8)
    np.testing.assert_array_equal(codes.check_codes(good, 12), good)
    for spoiled, order in ((1, "big"), (8, "big"), (16, "little"), (128, "little")):
        row = np.array([[0, spoiled]], dtype=np.uint8)
        with pytest.raises(ValueError, match="queries of 12 bits must end in 4 zero bits per row"):
            codes.check_codes(row, 12, order, "queries")
        codes.check_codes(row, 12, "little" if order == "big" else "big")
    with pytest.raises(ValueError, match="bit_order"):
        codes.check_codes(good, 16, "middle")


def test_shifted_bytes_become_packed_codes():
    plain = np.arange(256, dtype=np.uint8).reshape(64, 4)
    shifted = (plain.astype(np.int16) - 128).astype(np.int8)  # as sentence-transformers does for precision="binary"
    np.testing.assert_array_equal(codes.from_int8(shifted), plain)
    np.testing.assert_array_equal(codes.from_int8(shifted[:, ::2]), plain[:, ::2])
    for wrong in (plain, shifted[0], shifted.astype(np.int16)):
        with pytest.raises(ValueError, match="2-D array of int8"):
            codes.from_int8(wrong)
    with pytest.raises(ValueError, match=r"Got 2-D int8 instead: hl\.codes\.from_int8"):
        codes.check_packed(shifted)
