"""``hashlearn serve``: serve collections over HTTP, with a page to explore them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hashlearn.cli.shell import BadUse, as_bad_use, epilog, say

if TYPE_CHECKING:
    from hashlearn.service.served_collection import ServedCollection
    from hashlearn.service.settings import ServerSettings

app = typer.Typer()

PORT = 8765
EXTRA = "pip install '.[serve]'"
_NAMED = re.compile(r"([A-Za-z0-9_.-]{1,64})=(.+)", re.DOTALL)


@app.command(
    epilog=epilog(
        "hashlearn serve shop/ --images photos/",
        "hashlearn serve learned=a/ hashed=b/ --port 8800 --open",
        "HASHLEARN_TOKEN=$(cat secret) hashlearn serve postgresql://… --host 0.0.0.0",
    )
)
def serve(
    collections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]URI...", help="Folders, milvus://… or postgresql://…, each with a name."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address that other machines can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    images: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]PATH", help="Folder or zip with the items' pictures, of one or all collections."),
    ] = None,
    image_features: Annotated[
        str | None,
        typer.Option(metavar="KIND:SIDE", help="How uploaded pictures become rows: gist:32, gray:28 …"),
    ] = None,
    no_search_texts: Annotated[
        bool, typer.Option("--no-search-texts", help="Do not load the text models that hashers name.")
    ] = False,
    label_field: Annotated[
        str | None, typer.Option(help="Field of the payload with the labels, if the collection does not know it.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with one token per line, 'read TOKEN' or 'write TOKEN'; or HASHLEARN_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that requests may use for this machine.")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the certificate; the server then uses HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with the certificate's private key.")] = None,
    access_log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one JSON line per request; '-' is standard error.")
    ] = None,
    create_in: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Let clients with a token create and drop collections in this folder."),
    ] = None,
    bench: Annotated[Path | None, typer.Option(help="Folder of a bench report, shown at /bench/.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all writes, also with a token.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve collections as an HTTP API and a page to explore them, until Ctrl-C.

    Without a token, only this machine can connect, and all writes are refused.
    """
    need_extra()
    from hashlearn.service.routes_collections import open_made
    from hashlearn.service.served_collection import default_name, open_collection
    from hashlearn.service.settings import ServerSettings, read_tokens, world_readable

    if bench is not None and not (bench / "report.html").is_file():
        raise BadUse(f"{bench} holds no report.html: make one with hashlearn bench report.")
    if not collections and create_in is None:
        raise BadUse("Give collections to serve, or --create-in FOLDER where clients can create some.")
    if read_only and create_in is not None:
        raise BadUse("--read-only refuses all writes, so --create-in has no use beside it: leave one of them out.")
    with as_bad_use(ValueError):
        settings = ServerSettings(
            host,
            read_tokens(token_file),
            tuple(allow_host or ()),
            bench=bench,
            create_in=create_in,
            access_log=access_log,
            search_texts=not no_search_texts,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
        )
    if token_file is not None and world_readable(token_file):
        say(f"warning: every user of this machine can read the tokens in {token_file}: chmod 600 {token_file}")
    pictures = dict(_named(text) for text in images or ())
    served: list[ServedCollection] = []
    try:
        for text in collections or ():
            given, uri = _named(text)
            name = given or default_name(uri)
            path = pictures.get(name, pictures.get(""))
            served.append(
                open_collection(
                    uri,
                    name,
                    images=None if path is None else Path(path),
                    features=image_features,
                    label_field=label_field,
                    read_only=read_only,
                )
            )
        if create_in is not None:
            served += open_made(create_in)
        unknown = set(pictures) - {"", *(one.name for one in served)}
        if unknown:
            raise BadUse(f"--images names {min(unknown)!r}, which is no collection here.")
    except BaseException:
        for one in served:
            one.collection.close()
        raise
    serve_collections(served, settings, port, open_page)


def _named(text: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(text)
    return (found[1], found[2]) if found else ("", text)


def need_extra() -> None:
    """Raise a BadUse that names the missing package, before any work starts."""
    try:
        import fastapi  # noqa: F401
        import fastapi_offline  # noqa: F401
        import PIL  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadUse(f"Serving needs {error.name}: {EXTRA}.") from error


def serve_collections(served: list[ServedCollection], settings: ServerSettings, port: int, open_page: bool) -> None:
    """Listen, print the address, and serve until Ctrl-C or SIGTERM."""
    from hashlearn.service.run import listen, serve, url_of
    from hashlearn.service.service import Service

    service = Service(served, settings)
    try:
        for why in filter(None, map(service.load_text_model, served)):
            say(why)
        listening = listen(settings.host, port)
        url = url_of(listening, settings)

        def on_start() -> None:
            names = ", ".join(service.collections)
            say(f"serving {names}; {'writing with a token' if settings.may_write else 'read only'}; Ctrl-C ends it.")
            typer.echo(url)
            if open_page:
                import webbrowser

                webbrowser.open(url)

        serve(service, listening, on_start)
    except BaseException:
        service.close_now()
        raise
    say("stopped.")
