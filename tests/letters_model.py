"""A stand-in for text models, so that tests need no network and no seconds."""

from typing import ClassVar

import numpy as np
import pytest

from hashlearn.data import embed


class Letters:
    """A text model that counts letters; one with the name "wide" counts them twice. ``made`` counts its texts."""

    made = 0
    loaded: ClassVar[list[str]] = []
    stop_after = None

    def __init__(self, name):
        self.name = name
        self.n_features = 52 if name == "wide" else 26
        Letters.loaded.append(name)

    encode = embed.TextModel.encode
    rows = embed.TextModel.rows

    def _vectors(self, texts):
        if Letters.stop_after is not None and Letters.made >= Letters.stop_after:
            raise KeyboardInterrupt
        Letters.made += len(texts)
        counts = [[text.count(chr(97 + place)) + 0.1 for place in range(26)] for text in texts]
        return np.tile(np.array(counts, dtype=np.float32), self.n_features // 26)


@pytest.fixture
def letters(monkeypatch):
    embed.text_model.cache_clear()
    monkeypatch.setattr(embed, "TextModel", Letters)
    monkeypatch.setattr(embed, "_SHARD", 10)
    Letters.made, Letters.stop_after, Letters.loaded = 0, None, []
    yield Letters
    embed.text_model.cache_clear()
