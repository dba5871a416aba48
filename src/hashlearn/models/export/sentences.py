"""A module of sentence-transformers: ``SentenceTransformer.encode`` gives codes instead of embeddings."""

from __future__ import annotations

import os
from typing import Any, Literal, Self, get_args

from sklearn.utils.validation import check_is_fitted

from hashlearn import models
from hashlearn.codes import n_bytes

try:
    import torch
    from sentence_transformers.sentence_transformer.modules import Module
except ImportError as error:
    raise ImportError("SentenceCodes needs sentence-transformers: pip install sentence-transformers.") from error

Output = Literal["codes", "expected_bits"]
FILE = "hasher.hl"


class SentenceCodes(Module):
    """The last module of a SentenceTransformer: it hashes the sentence embedding.

    Parameters
    ----------
    hasher : a fitted hasher
        Fitted on embeddings of the modules before this one.
    output : {"codes", "expected_bits"}, default="codes"
        Packed codes (uint8), or real-valued queries in [-1, 1] (float32). ``encode_query`` gives codes of queries;
        ``encode`` and ``encode_document`` give those of database rows.

    Examples
    --------
    ::

        model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
        hasher = hl.GSDHP(64).fit(model.encode(texts), labels)
        model.append(SentenceCodes(hasher))
        codes = model.encode(texts)             # uint8 (n, 8)
        model.save("coder")                     # the hasher is saved with the model
        SentenceTransformer("coder", trust_remote_code=True)
    """

    config_keys = ["output"]  # noqa: RUF012 - as in the base class
    forward_kwargs = {"task"}  # noqa: RUF012 - as in the base class

    def __init__(self, hasher: Any, output: Output = "codes") -> None:
        super().__init__()
        check_is_fitted(hasher)
        if output not in get_args(Output):
            raise ValueError(f"output must be one of {', '.join(get_args(Output))}. Got {output!r} instead.")
        self.hasher = hasher
        self.output = output

    def forward(self, features: dict[str, Any], task: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Replace the sentence embedding. ``task`` is "query" in ``encode_query``."""
        embedding = features["sentence_embedding"]
        rows = embedding.detach().to("cpu", torch.float32).numpy()
        if self.output == "expected_bits":
            result = self.hasher.expected_bits(rows)
        else:
            result = self.hasher.encode_queries(rows) if task == "query" else self.hasher.encode(rows)
        features["sentence_embedding"] = torch.from_numpy(result).to(embedding.device)
        return features

    def get_embedding_dimension(self) -> int:
        """Return the length of what ``encode`` gives: bytes of codes, or bits."""
        return self.hasher.n_bits_ if self.output == "expected_bits" else n_bytes(self.hasher.n_bits_)

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the hasher, as a model file of hashlearn, and the settings."""
        models.save(self.hasher, os.path.join(output_path, FILE))
        self.save_config(output_path)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        init_defaults: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Read what ``save`` wrote; a model file cannot run code."""
        places: dict[str, Any] = {
            "token": token,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **places)
        path = cls.load_file_path(model_name_or_path, FILE, subfolder=subfolder, **places)
        if path is None:
            raise FileNotFoundError(f"{model_name_or_path} has no file {os.path.join(subfolder, FILE)}.")
        return cls(models.load(path), config["output"])
