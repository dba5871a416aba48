"""A report as Markdown, CSV, JSON and one HTML page that needs nothing but itself."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hashlearn.bench.plots import need_matplotlib, plot_table, svg
from hashlearn.bench.sections import Section
from hashlearn.bench.store import Run, Store, write_json
from hashlearn.bench.tables import as_csv, as_markdown
from hashlearn.files.output import written_whole

# Tables scroll inside their own box, so that a phone never scrolls the whole page sideways; plots go two abreast
# where there is room for two.
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 78rem; font: 16px/1.5 system-ui, sans-serif; color: #1c2430;
  background: #fff; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 1px solid #d8dee6; }
p, li { max-width: 48rem; }
nav ul { padding-left: 1.1rem; }
a { color: #1b6ca8; }
.scroll { overflow-x: auto; border: 1px solid #d8dee6; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #edf0f4; }
th { background: #f4f6f9; font-weight: 600; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td:first-child, th:first-child { position: sticky; left: 0; background: #f4f6f9; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem;
  margin-top: 1rem; }
figure { margin: 0; border: 1px solid #d8dee6; border-radius: 6px; padding: .4rem; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; }
footer { margin-top: 2.5rem; color: #5b6675; font-size: .85rem; }
@media print { .scroll { overflow: visible; } figure { break-inside: avoid; } }
"""


def write_report(folder: str | Path, title: str, sections: Sequence[Section], runs: Sequence[Run]) -> list[Path]:
    """Write report.md, report.csv, report.json and report.html, each whole or not at all."""
    need_matplotlib()
    store = Store(folder)
    store.make()
    facts = machine_lines(runs)
    records = [record for section in sections for record in section.records]
    paths = [store.folder / f"report.{suffix}" for suffix in ("md", "csv", "json", "html")]
    _write(paths[0], markdown(title, sections, facts))
    _write(paths[1], as_csv([_flat(record) for record in records]))
    write_json(paths[2], {"title": title, "machine": facts, "sections": [_plain(section) for section in sections]})
    _write(paths[3], page(title, sections, facts))
    return paths


def machine_lines(runs: Sequence[Run]) -> list[str]:
    """Where the runs were made, a line for every machine and set of versions."""
    lines = []
    for run in runs:
        facts = run.machine
        if facts:
            versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
            blas = ", ".join(facts["blas"])
            lines.append(f"{facts['cpu']}, {facts['threads']} of {facts['cores']} cores, {versions}, {blas}")
    return list(dict.fromkeys(lines))


def markdown(title: str, sections: Sequence[Section], facts: Sequence[str]) -> str:
    """The tables and remarks, and as tables the plots that show what no table has."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += section.notes
        if section.rows:
            parts.append(as_markdown(section.columns, section.rows))
        for plot in section.plots:
            if not section.rows or not plot.tabled:
                parts += [f"**{plot.title}**", as_markdown(*plot_table(plot))]
    parts += [f"Made on: {line}." for line in facts]
    return "\n\n".join(parts) + "\n"


def page(title: str, sections: Sequence[Section], facts: Sequence[str]) -> str:
    """The report as one HTML page."""
    body = [f"<h1>{html.escape(title)}</h1>"]
    if len(sections) > 1:
        links = "".join(f'<li><a href="#s{n}">{html.escape(s.title)}</a></li>' for n, s in enumerate(sections))
        body.append(f"<nav><ul>{links}</ul></nav>")
    for number, section in enumerate(sections):
        body.append(f'<section id="s{number}"><h2>{html.escape(section.title)}</h2>')
        body += [f"<p>{html.escape(note)}</p>" for note in section.notes]
        if section.rows:
            body.append(_html_table(section))
        if section.plots:
            figures = "".join(f"<figure>{svg(plot)}</figure>" for plot in section.plots)
            body.append(f'<div class="plots">{figures}</div>')
        body.append("</section>")
    made = "".join(f"<p>Made on: {html.escape(line)}.</p>" for line in facts)
    body.append(f"<footer>{made}</footer>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _html_table(section: Section) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in section.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in section.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def _plain(section: Section) -> dict[str, Any]:
    return {"title": section.title, "notes": section.notes, "rows": section.records}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    settings = record.get("settings", {})
    return record | {"settings": " ".join(f"{name}={value}" for name, value in settings.items())}


def _write(path: Path, text: str) -> None:
    with written_whole(path) as stream:
        stream.write(text.encode())
