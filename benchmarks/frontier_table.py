"""The frontier chapter of docs/results.md, from the folders of several frontiers.

    hashlearn bench frontier --data clinc150-minilm --data-dir data -o frontier/clinc150-minilm
    python benchmarks/frontier_table.py frontier/clinc150-minilm frontier/coco18 --into docs/results.md --pictures docs

Prints a compact table for each folder with the sentences of its page about AutoHasher. ``--into`` writes them between
the marks of a file instead, ``--pictures`` copies each picture as ``frontier-NAME.svg``, and ``--sentences`` prints
what README says about the first folder. A folder of which not all methods are measured gives the rows that there are.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- frontier tables: begin -->", "<!-- frontier tables: end -->"
TITLE = "Accuracy per byte: "
REMARKS, OLDER = ("Left out: ", "Failed: "), "made by older code"
# Methods of the tables in their order, as the pages and as this table name them.
NAMES = {
    "auto, real-valued queries": "**AutoHasher**, real-valued queries",
    "auto, Hamming": "**AutoHasher**, Hamming",
    "gsdhp, real-valued queries": "GSDH_P, real-valued queries",
    "ksdh, real-valued queries": "KSDH, real-valued queries",
    "cca-itq, real-valued queries": "CCA-ITQ, real-valued queries",
    "kernel scores + PQ": "kernel scores + PQ",
    "LDA + PQ": "LDA + PQ",
    "SQH": "SQH",
    "itq, real-valued queries": "ITQ, real-valued queries",
    "itq, Hamming": "ITQ, Hamming",
    "PQ": "PQ",
    "OPQ": "OPQ",
    "RQ": "RQ",
    "LSQ": "LSQ",
    "RaBitQ": "RaBitQ",
    "PCA + sign": "PCA + sign",
    "cut, 8 bit": "cut, 8 bit",
}
OTHERS = ("float cosine", "8 bit scalar", "4 bit scalar", "mean bits", "sign bits", "sign bits, rescored by int8",
          "auto, rescored by int8", "auto, rescored by float")  # fmt: skip
Record = dict[str, Any]


@dataclass(frozen=True)
class Frontier:
    """What a folder of ``hashlearn bench frontier`` holds: name, title, rows of the table, remarks, and sentences."""

    name: str
    title: str
    records: list[Record]
    remarks: list[str]
    verdicts: list[str]

    @classmethod
    def read(cls, folder: str | Path) -> Frontier:
        path = Path(folder) / "report.json"
        if not path.is_file():
            raise SystemExit(f"{folder} has no report.json: run 'hashlearn bench frontier … -o {folder}' first.")
        report = json.loads(path.read_text(encoding="utf-8"))
        table, ahead = report["sections"][:2]
        # What is missing or was made by older code concerns the tables too.
        remarks = [note for note in table["notes"] if note.startswith(REMARKS) or OLDER in note]
        return cls(Path(folder).name, report["title"].removeprefix(TITLE), table["rows"], remarks, ahead["notes"])

    @property
    def columns(self) -> tuple[str, str]:
        """The two scores of a cell: seen and unseen classes, or two measures of label sets."""
        return ("map_seen", "map_unseen") if "map_seen" in self.records[0] else ("ndcg_new", "map_new")

    @property
    def meaning(self) -> str:
        if self.columns[0] == "map_seen":
            return "MAP of the whole ranking on seen / unseen classes"
        return "NDCG@10 / MAP of the whole ranking on new rows"

    @property
    def seeds(self) -> int:
        return int(max(record["seeds"] for record in self.records))

    @property
    def sizes(self) -> list[int]:
        return sorted({record["bytes"] for record in self.records if record["method"] in NAMES})

    def find(self, method: str, n_bytes: int | None = None) -> Record | None:
        """The row of a method, the first one if no size is given."""
        return next((r for r in self.records if r["method"] == method and n_bytes in (None, r["bytes"])), None)


def number(value: float) -> str:
    """Three digits without the zero before the point.

    >>> number(0.9438), number(1.0)
    ('.944', '1.000')
    """
    return f"{value:.3f}".removeprefix("0")


def cell(frontier: Frontier, record: Record | None) -> str:
    """The two scores of a row, with deviations where there are several seeds."""
    if record is None:
        return "–"
    parts = []
    for column in frontier.columns:
        deviation = record[f"{column}_deviation"]
        parts.append(number(record[column]) + ("" if deviation is None else f" ± {number(deviation)}"))
    return " / ".join(parts)


def section(frontier: Frontier, picture: bool) -> str:
    """A heading, the table, other sizes in a sentence, and the sentences about AutoHasher."""
    seeds = "one seed" if frontier.seeds == 1 else f"mean ± deviation over {frontier.seeds} seeds"
    parts = [f"### {frontier.title}", f"{frontier.meaning}, {seeds}."]
    if picture:
        parts.append(f"![{frontier.meaning} against bytes]({picture_name(frontier)})")
    lines = [
        "| method | " + " | ".join(f"{size} B" for size in frontier.sizes) + " |",
        "|---" * (len(frontier.sizes) + 1) + "|",
    ]
    for method, name in NAMES.items():
        records = [frontier.find(method, size) for size in frontier.sizes]
        if any(records):
            lines.append(f"| {name} | " + " | ".join(cell(frontier, record) for record in records) + " |")
    parts.append("\n".join(lines))
    others = [(method, record) for method in OTHERS if (record := frontier.find(method)) is not None]
    figures = "; ".join(f"{method} ({record['bytes']:,} bytes) {cell(frontier, record)}" for method, record in others)
    parts.append(" ".join([f"At other sizes: {figures}.", *frontier.remarks]))
    if frontier.verdicts:
        parts.append("\n".join(f"- {sentence}" for sentence in frontier.verdicts))
    return "\n\n".join(parts)


def picture_name(frontier: Frontier) -> str:
    """The picture of clinc150-minilm is frontier-clinc150.svg."""
    return f"frontier-{frontier.name.partition('-')[0]}.svg"


def sentences(frontier: Frontier) -> str:
    """What the sizes of AutoHasher give on known and unknown classes, beside floats and PQ, as text for README."""
    floats, sizes = frontier.find("float cosine"), frontier.sizes
    if floats is None or "map_seen" not in floats:
        raise SystemExit("The sentences need a frontier of classes with float cosine.")
    text = []
    for column, start in (("map_seen", "find rows of known classes with MAP"), ("map_unseen", "have")):
        own, other = (
            listed([number(record[column]) for size in sizes if (record := frontier.find(method, size)) is not None])
            for method in ("auto, real-valued queries", "PQ")
        )
        text.append(
            f"{start} {own}, where {floats['bytes']:,} bytes of floats have {number(floats[column])} and PQ of the "
            f"same sizes has {other}."
        )
    seeds = "one seed" if frontier.seeds == 1 else f"means over {frontier.seeds} seeds"
    where = frontier.title.partition(" as ")[0]
    return (
        f"On {where} ({seeds}) {listed([str(size) for size in sizes])} bytes of `AutoHasher` {text[0]} On classes that "
        f"training never saw they {text[1]}"
    )


def listed(words: Sequence[str]) -> str:
    """Words as a list of a sentence.

    >>> listed(["8", "16", "32"])
    '8, 16 and 32'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def write_into(file: Path, text: str) -> None:
    """Put the text between the marks of a file."""
    old = file.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise SystemExit(f"{file} has no lines {BEGIN} and {END} to write between.")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, help="the file with the marks, instead of printing")
    parser.add_argument("--pictures", type=Path, help="the folder for the pictures, which the text then shows")
    parser.add_argument("--sentences", action="store_true", help="print the sentences of README instead of tables")
    options = parser.parse_args(words)
    frontiers = [Frontier.read(folder) for folder in options.folders]
    if options.sentences:
        print(sentences(frontiers[0]))
        return
    text = "\n\n".join(section(frontier, options.pictures is not None) for frontier in frontiers)
    if options.pictures is not None:
        for folder, frontier in zip(options.folders, frontiers, strict=True):
            shutil.copy(folder / "frontier.svg", options.pictures / picture_name(frontier))
    if options.into is None:
        print(text)
    else:
        write_into(options.into, text)


if __name__ == "__main__":
    main()
