"""A SentenceTransformer whose last module makes codes: the same codes, saved and loaded with the model."""

import numpy as np
import pytest
from small_methods import spread_bits

import hashlearn as hl

pytestmark = pytest.mark.slow  # sentence-transformers takes seconds to import

WORDS = ["card", "lost", "money", "sent", "rain", "snow", "sun", "wind"]
TEXTS = [f"{a} {b}" for a in WORDS for b in WORDS]


@pytest.fixture(scope="module")
def embedder():
    """Embeddings that are means of random vectors of words: nothing to download."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    vocabulary = {word: number for number, word in enumerate(["?", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).normal(size=(len(vocabulary), 12)).astype(np.float32)

    def make():
        return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")

    return make


@pytest.fixture(scope="module")
def hasher(embedder):
    labels = [WORDS.index(text.split()[0]) // 4 for text in TEXTS]
    made = hl.GSDHP(12, n_landmarks=20, n_anchors=30, random_state=0).fit(embedder().encode(TEXTS), labels)
    spread_bits(made)
    return made


def test_encode_gives_codes_also_after_saving(embedder, hasher, tmp_path):
    from sentence_transformers import SentenceTransformer

    from hashlearn.models.export.sentences import SentenceCodes

    model, rows = embedder(), embedder().encode(TEXTS)
    model.append(SentenceCodes(hasher))
    model.save(str(tmp_path / "coder"))
    for coder in (model, SentenceTransformer(str(tmp_path / "coder"), trust_remote_code=True, device="cpu")):
        codes = coder.encode(TEXTS)
        assert codes.dtype == np.uint8
        np.testing.assert_array_equal(codes, hasher.encode(rows))
        np.testing.assert_array_equal(coder.encode_document(TEXTS), codes)
        np.testing.assert_array_equal(coder.encode_query(TEXTS), hasher.encode_queries(rows))
        assert not np.array_equal(codes, coder.encode_query(TEXTS))
        assert coder.get_embedding_dimension() == 2
        np.testing.assert_array_equal(coder.encode("lost card"), hasher.encode(embedder().encode(["lost card"]))[0])


def test_real_valued_queries(embedder, hasher, tmp_path):
    from sentence_transformers import SentenceTransformer

    from hashlearn.models.export.sentences import SentenceCodes

    model, wanted = embedder(), hasher.expected_bits(embedder().encode(TEXTS))
    model.append(SentenceCodes(hasher, output="expected_bits"))
    model.save(str(tmp_path / "coder"))
    for coder in (model, SentenceTransformer(str(tmp_path / "coder"), trust_remote_code=True, device="cpu")):
        np.testing.assert_allclose(coder.encode(TEXTS, batch_size=7), wanted, atol=1e-5)  # batches round differently
        assert coder.get_embedding_dimension() == 12
    with pytest.raises(ValueError, match=r"output must be one of codes, expected_bits. Got 'bits'"):
        SentenceCodes(hasher, output="bits")
