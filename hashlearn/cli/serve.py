"""``hashlearn serve``: collections over HTTP, and the page to explore them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hashlearn.cli.shell import BadUse, epilog, say

if TYPE_CHECKING:
    from hashlearn.service.opened import Opened
    from hashlearn.service.settings import Settings

app = typer.Typer()

EXTRA = "pip install 'hashlearn[serve]'"
_NAMED = re.compile(r"([A-Za-z0-9_.-]{1,64})=(.+)", re.DOTALL)


@app.command(
    epilog=epilog(
        "hashlearn serve shop/ --images photos/",
        "hashlearn serve learned=a/ hashed=b/ --port 8000 --open",
        "HASHLEARN_TOKEN=$(cat secret) hashlearn serve postgresql://… --host 0.0.0.0",
    )
)
def serve(
    collections: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]URI...", help="Folders, milvus://… or postgresql://…, each with a name."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other than this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    images: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]PATH", help="Folder or zip with the items' pictures, of one or all collections."),
    ] = None,
    image_features: Annotated[
        str | None, typer.Option(metavar="KIND:SIDE", help="How uploaded pictures become rows: gist:32, grey:28 …")
    ] = None,
    label_field: Annotated[str | None, typer.Option(help="Field of the payload with the labels.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that writing needs; or HASHLEARN_TOKEN in the environment.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that this machine may be called by in requests.")
    ] = None,
    bench: Annotated[Path | None, typer.Option(help="Folder of a bench report, shown at /bench/.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Never write, token or not.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve collections as an HTTP API and a page to explore them, until Ctrl-C.

    Only this machine can connect, and nobody can write, unless there is a token.
    """
    need_extra()
    from hashlearn.service.opened import default_name, open_collection
    from hashlearn.service.settings import Settings, read_token

    if bench is not None and not (bench / "report.html").is_file():
        raise BadUse(f"{bench} holds no report.html: make one with hashlearn bench report.")
    try:
        settings = Settings(host, read_token(token_file), tuple(allow_host or ()), bench=bench)
    except ValueError as error:
        raise BadUse(str(error)) from error
    pictures = dict(_named(text) for text in images or ())
    opened: list[Opened] = []
    try:
        for text in collections:
            given, uri = _named(text)
            name = given or default_name(uri)
            path = pictures.get(name, pictures.get(""))
            opened.append(
                open_collection(
                    uri,
                    name,
                    images=None if path is None else Path(path),
                    features=image_features,
                    label_field=label_field,
                    read_only=read_only,
                )
            )
        unknown = set(pictures) - {"", *(one.name for one in opened)}
        if unknown:
            raise BadUse(f"--images names {min(unknown)!r}, which is no collection here.")
    except BaseException:
        for one in opened:
            one.collection.close()
        raise
    serve_opened(opened, settings, port, open_page)


def _named(text: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(text)
    return (found[1], found[2]) if found else ("", text)


def need_extra() -> None:
    """ImportError as one sentence, before anything is begun."""
    try:
        import fastapi  # noqa: F401
        import PIL  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadUse(f"Serving needs {error.name}: {EXTRA}.") from error


def serve_opened(opened: list[Opened], settings: Settings, port: int, open_page: bool) -> None:
    """Listen, say where, and serve until told to stop."""
    from hashlearn.service.run import listen, serve, url_of
    from hashlearn.service.service import Service

    service = Service(opened, settings)
    try:
        listening = listen(settings.host, port)
    except BaseException:
        service.close()
        raise
    url = url_of(listening)

    def started() -> None:
        names = ", ".join(service.collections)
        say(f"serving {names}; {'writing with the token' if service.may_write else 'read only'}; Ctrl-C ends it.")
        typer.echo(url)
        if open_page:
            import webbrowser

            webbrowser.open(url)

    serve(service, listening, started)
    say("stopped.")
