"""serve.json: how a collection is shown, kept in its own folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole

FILE_NAME = "serve.json"


@dataclass(frozen=True)
class DisplayConfig:
    """How the service shows a collection. Options of the command line take precedence.

    Parameters
    ----------
    images : str or None
        A folder or zip file of pictures. A relative path begins in the collection's folder.
    image_field : str or None
        The payload field that holds the path of a picture.
    image_features : str or None
        How pictures become rows: "gist:32", "pixels:32" or "gray:28".
    label_field : str or None
        The payload field that holds the labels of an item.
    """

    images: str | None = None
    image_field: str | None = None
    image_features: str | None = None
    label_field: str | None = None

    def write(self, folder: Path) -> None:
        """Write the values that are set to ``serve.json`` in ``folder``."""
        values = {name: value for name, value in vars(self).items() if value is not None}
        with written_whole(folder / FILE_NAME) as stream:
            stream.write(json.dumps(values, indent=2).encode())

    @classmethod
    def read(cls, folder: Path) -> DisplayConfig:
        """The values in ``serve.json`` of ``folder``; none are set where the file is missing."""
        path = folder / FILE_NAME
        if not path.is_file():
            return cls()
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if not all(isinstance(value, str) for value in values.values()):
                raise ValueError
            return cls(**values)
        except (ValueError, TypeError, AttributeError) as error:
            known = ", ".join(vars(cls()))
            raise FileError(f"{path} must be a JSON object of text with the names {known}.") from error
