"""A report as Markdown, CSV, JSON and one HTML page that loads no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hashlearn.bench.plots import need_bench_extra, plot_table, svg
from hashlearn.bench.sections import Section
from hashlearn.bench.store import BenchRun, RunStore, write_json
from hashlearn.bench.tables import as_csv, as_markdown
from hashlearn.files.output import written_whole

TEMPLATE = "report.html.jinja"


def write_report(folder: str | Path, title: str, sections: Sequence[Section], runs: Sequence[BenchRun]) -> list[Path]:
    """Write report.md, report.csv, report.json and report.html. Each file appears only when it is complete."""
    need_bench_extra()
    store = RunStore(folder)
    store.make()
    facts = machine_lines(runs)
    records = [record for section in sections for record in section.records]
    paths = [store.folder / f"report.{suffix}" for suffix in ("md", "csv", "json", "html")]
    _write(paths[0], markdown(title, sections, facts))
    _write(paths[1], as_csv([_flat(record) for record in records]))
    write_json(paths[2], {"title": title, "machine": facts, "sections": [_plain(section) for section in sections]})
    _write(paths[3], page(title, sections, facts))
    return paths


def machine_lines(runs: Sequence[BenchRun]) -> list[str]:
    """Return one line for each machine and set of versions that the runs were made with."""
    lines = []
    for run in runs:
        facts = run.machine
        if facts:
            versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
            blas = ", ".join(facts["blas"])
            lines.append(f"{facts['cpu']}, {facts['threads']} of {facts['cores']} cores, {versions}, {blas}")
    return list(dict.fromkeys(lines))


def markdown(title: str, sections: Sequence[Section], facts: Sequence[str]) -> str:
    """Return the report as Markdown: tables, remarks, and a table for each plot whose numbers are in no other table."""
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
    """Return the report as one HTML page. All text except the plots is escaped."""
    need_bench_extra()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["svg"] = lambda plot: Markup(svg(plot))
    return pages.get_template(TEMPLATE).render(title=title, sections=sections, facts=facts)


def _plain(section: Section) -> dict[str, Any]:
    return {"title": section.title, "notes": section.notes, "rows": section.records}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    settings = record.get("settings", {})
    if not settings and "settings" not in record:
        return record
    return record | {"settings": " ".join(f"{name}={value}" for name, value in settings.items())}


def _write(path: Path, text: str) -> None:
    with written_whole(path) as stream:
        stream.write(text.encode())
