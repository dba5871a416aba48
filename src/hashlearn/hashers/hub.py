"""Hashers on the Hugging Face hub: a folder with a model file and a model card, here or there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from hashlearn.wholefile import saved

FILE, CARD = "hasher.hl", "README.md"


class OnHub:
    """The methods by which models of other libraries go to and come from the hub."""

    def save_pretrained(self, folder: str | os.PathLike[str], *, scores: Mapping[str, float] | None = None) -> None:
        """Write the fitted hasher and a model card to a folder, which is made if it is missing.

        Parameters
        ----------
        folder : str or path-like
        scores : dict of str to float, default=None
            Measured figures for the card, by name, such as ``{"MAP on new rows": 0.91}``.
        """
        from hashlearn import save

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        save(self, place / FILE)
        with saved(place / CARD, "model card", OSError) as stream:
            stream.write(model_card(self, scores or {}).encode())

    def push_to_hub(
        self,
        repo_id: str,
        *,
        scores: Mapping[str, float] | None = None,
        private: bool | None = None,
        token: str | None = None,
    ) -> str:
        """Upload what ``save_pretrained`` writes to a repository of the hub, and return its address.

        Parameters
        ----------
        repo_id : str
            ``"owner/name"``. The repository is made if it is missing.
        scores : dict of str to float, default=None
            As for ``save_pretrained``.
        private : bool, default=None
            Of a repository that is made: whether only its owner sees it.
        token : str, default=None
            Without it, that of ``hf auth login`` is used.

        Returns
        -------
        str
        """
        api = _hub().HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, scores=scores)
            made = api.create_repo(repo_id, private=private, exist_ok=True)
            name = f"Upload {type(self).__name__} of hashlearn"
            api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=name)
        return str(made)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, revision: str | None = None, token: str | None = None
    ) -> Self:
        """Load a hasher from a folder, or from a repository of the hub. A model file cannot run code.

        Parameters
        ----------
        name : str or path-like
            A folder that ``save_pretrained`` wrote, or ``"owner/name"``.
        revision : str, default=None
            A branch, tag or commit of the repository.
        token : str, default=None
            As for ``push_to_hub``.

        Returns
        -------
        a hasher of this class
        """
        from hashlearn import load

        path: str | Path = Path(name) / FILE
        if not os.path.isdir(name):
            path = _hub().hf_hub_download(os.fspath(name), FILE, revision=revision, token=token)
        hasher: Any = load(path)
        if not isinstance(hasher, cls):
            raise TypeError(f"{name} holds a hasher of another class: write {type(hasher).__name__}.from_pretrained.")
        return hasher


def model_card(hasher: Any, scores: Mapping[str, float]) -> str:
    """Return the card of a fitted hasher: what it is, how to use it, and what was measured."""
    kind = type(hasher).__name__
    text_model = getattr(hasher, "text_model_", None)
    rows = f"embeddings by `{text_model}`" if text_model else "rows"
    parts = [
        "---\nlibrary_name: hashlearn\ntags:\n- hashing\n- retrieval\n- binary-codes\n---",
        f"# {kind}, {hasher.n_bits_} bits",
        f"It turns {rows} of {hasher.n_features_in_} numbers into codes of {-(-hasher.n_bits_ // 8)} bytes.",
        f'```python\nimport hashlearn as hl\n\nhasher = hl.{kind}.from_pretrained("owner/name")\n'
        "codes = hasher.encode(X)\n```",
    ]
    if scores:
        lines = [f"| {name} | {value:.4g} |" for name, value in scores.items()]
        parts += ["## Measured", "\n".join(["| figure | value |", "|---|---|", *lines])]
    if (report := getattr(hasher, "report_", None)) is not None:
        parts += ["## Measured by the fit", f"```text\n{report}\n```"]
    return "\n\n".join(parts) + "\n"


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError("The hub needs huggingface_hub: pip install '.[hub]'.") from error
    return huggingface_hub
