"""Who may ask for what, what every answer carries, and what no request can reach."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re

import numpy as np
import pytest
from service_box import API, AUTH, ROWS, TOKEN, client, error_of, make_shop, new_service, rows

from hashlearn import Collection
from hashlearn.files.images import as_png
from hashlearn.service.app import POLICY, REPORT_POLICY
from hashlearn.service.images import ImageDecoder
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import Limits, ServerSettings, Token, find_token, read_tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("security")


@pytest.fixture(scope="module")
def http(folder):
    with client(new_service(folder, allow_hosts=("Shop.example",))) as it:
        yield it


WRITES = [
    ("POST", "/items", {"vectors": rows(1).tolist()}),
    ("DELETE", "/items", {"ids": [1]}),
    ("DELETE", "/items/1", None),
    ("POST", "/items.npy", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_writing_needs_the_token(http, method, path, body):
    headers = {} if body is not None else {"Content-Type": "application/x-npy"}
    wrong = ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
    for value in wrong:
        response = http.request(method, API + path, json=body, headers={**headers, "Authorization": value})
        assert error_of(response, 401) == "no_token"
        assert response.headers["www-authenticate"].startswith("Bearer")
    # What a browser would send by itself is not enough either.
    response = http.request(method, API + path, json=body, headers=headers, auth=("me", TOKEN))
    assert error_of(response, 401) == "no_token"
    response = http.request(method, API + path, json=body, headers={**headers, **AUTH, "Origin": "http://evil.example"})
    assert error_of(response, 403) == "wrong_origin"
    assert http.get(API).json()["rows"] == ROWS


def test_a_request_has_one_authorization_header(http):
    """Of two headers one could name the scheme, and the other hold the password that a browser sends by itself."""
    basic = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for values in (["Bearer x", basic], [basic, "Bearer x"], [f"Bearer {TOKEN}"] * 2, ["Bearer", f"Bearer {TOKEN}"]):
        headers = [("Authorization", value) for value in values]
        assert error_of(http.delete(f"{API}/items/1", headers=headers), 400) == "bad_request"
    assert http.get(API).json()["rows"] == ROWS


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []

    def counting(a, b):
        compared.append((a, b))
        return hmac_compare(a, b)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", counting)
    tokens = (Token(TOKEN), Token("another-long-token", can_write=False))
    assert find_token(tokens, "é" * 20) is None
    assert find_token(tokens, "") is None
    assert find_token(tokens, TOKEN) is tokens[0]
    assert len(compared) == 6  # every token every time


def test_without_a_token_nobody_writes(tmp_path):
    with client(new_service(tmp_path, tokens=())) as http:
        for header in ("", "Bearer", "Bearer None"):
            response = http.delete(f"{API}/items/1", headers={"Authorization": header})
            assert error_of(response, 403) == "read_only"
        assert http.get(API).json()["can"]["write"] is False


def test_only_known_names_of_this_machine(http):
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "x@localhost"):
        response = http.get("/healthz", headers={"Host": host})
        assert (response.status_code, response.text) == (400, "Invalid host header")  # of Starlette's middleware
    for host in ("localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8000", "shop.example"):
        assert http.get("/healthz", headers={"Host": host}).status_code == 200


def test_other_machines_need_the_token_for_everything(tmp_path):
    service = new_service(tmp_path, host="0.0.0.0")
    with client(service) as http:  # listens here, and believes that it listens everywhere
        assert http.get("/healthz").status_code == 200
        for path in (
            "/",
            "/readyz",
            "/metrics",
            "/docs",
            "/openapi.json",
            "/api/v1/collections",
            "/static/x",
            "/bench/",
        ):
            response = http.get(path)
            assert error_of(response, 401) == "no_token"
            assert "Basic" in response.headers["www-authenticate"]
        assert error_of(http.post(f"{API}/search", json={"ids": [1]}), 401) == "no_token"
        assert http.get(API, headers=AUTH).status_code == 200
        assert http.get("/", auth=("anybody", TOKEN)).status_code == 200
        assert error_of(http.get(API, auth=("anybody", "wrong")), 401)
        assert error_of(http.get(API, headers={"Authorization": "Basic !!!"}), 401)


def test_settings_refuse_what_is_not_safe():
    for host in ("0.0.0.0", "::", "192.168.1.5", "my-name.example"):
        assert not ServerSettings(host=host, tokens=(Token(TOKEN),)).loopback
        with pytest.raises(ValueError, match="needs a token"):
            ServerSettings(host=host)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert ServerSettings(host=host).loopback
    with pytest.raises(ValueError, match="at least 16 characters"):
        Token("short")
    with pytest.raises(ValueError, match="ASCII"):
        Token("sixteen characters and a space")
    assert TOKEN not in repr(ServerSettings(tokens=(Token(TOKEN),)))


def test_the_token_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("HASHLEARN_TOKEN", raising=False)
    assert read_tokens(None) == ()
    monkeypatch.setenv("HASHLEARN_TOKEN", TOKEN)
    assert [token.secret for token in read_tokens(None)] == [TOKEN]
    (tmp_path / "token").write_text(f"{TOKEN}2\n")
    assert [token.secret for token in read_tokens(tmp_path / "token")] == [f"{TOKEN}2"]
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="no token"):
        read_tokens(tmp_path / "empty")


def test_every_answer_has_the_headers(http):
    answers = [
        http.get("/"),
        http.get("/openapi.json"),
        http.get("/healthz"),
        http.get("/nothing"),
        http.get(f"{API}/images/1"),
        http.put("/healthz"),
        http.post(f"{API}/search", content=b"{", headers={"Content-Type": "application/json"}),
        http.get("/healthz", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_the_page_of_the_api_runs_only_scripts_of_this_server(http):
    page = http.get("/docs")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["connect-src"] == "'self'"
    files = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(files) == 3
    for path in files:
        assert path.startswith("/")
        assert http.get(path).status_code == 200


def test_pages_fetch_nothing_from_outside(http):
    for path in ("/", "/docs"):
        page = http.get(path).text
        assert "http://" not in page
        assert "https://" not in page


def test_a_failure_of_ours_tells_nothing(folder):
    service = new_service(folder)

    def fail(*_, **__):
        raise RuntimeError("secret /etc/place")

    service.collections["shop"].collection.search = fail
    with client(service) as http:
        response = http.post(f"{API}/search", json={"ids": [1]})
        assert error_of(response, 500) == "failed"
        assert "secret" not in response.text
        assert response.headers["content-security-policy"] == POLICY
        assert http.get("/healthz").status_code == 200


def test_storage_that_fails_is_a_503_without_its_path(folder):
    service = new_service(folder)
    with client(service) as http:
        service.collections["shop"].collection.close()
        response = http.get(f"{API}/items/1")
        assert error_of(response, 503) == "storage"
        assert str(folder) not in response.text
        assert response.headers["retry-after"]
        assert error_of(http.get("/readyz"), 503) == "not_ready"
        assert http.get("/healthz").status_code == 200


ESCAPES = (
    "../secret.png",
    "..\\secret.png",
    "a/../../secret.png",
    "/etc/passwd",
    "%2e%2e/secret.png",
    "link.png",
    "links/secret.png",
    "secret.png\0.png",
    "x" * 5000 + ".png",
    ".",
    "",
)


def test_pictures_come_from_the_folder_only(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    secret = as_png(np.zeros((3, 3), dtype=np.uint8))
    (tmp_path / "secret.png").write_bytes(secret)
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "links").symlink_to(tmp_path)
    (inside / "good.png").write_bytes(secret)
    names = [name for name in ESCAPES if "\0" not in name] + [str(tmp_path / "secret.png"), "good.png"]
    with Collection.create(tmp_path / "c", n_bits=8) as made:
        made.add(codes=np.zeros((len(names), 1), dtype=np.uint8), payload=[{"image": name} for name in names])
    with client(Service([open_collection(str(tmp_path / "c"), images=inside)])) as http:
        api = "/api/v1/collections/c"
        for row in range(len(names) - 1):
            assert error_of(http.get(f"{api}/images/{row}"), 404) == "no_image"
            assert "image" not in http.get(f"{api}/items/{row}").json()
        assert http.get(f"{api}/images/{len(names) - 1}").content == secret


def test_paths_lead_nowhere_else(http, folder):
    (folder / "outside.txt").write_text("secret")
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        f"{API}/images/../../../../etc/passwd",
        f"{API}/images/..%2f..%2foutside.txt",
        "/bench/../app.py",
        "/api/v1/collections/..%2fshop/items",
    ):
        # The client would tidy the path up before it is sent.
        raw = http.build_request("GET", "/")
        raw.url = raw.url.copy_with(raw_path=path.encode())
        response = http.send(raw)
        assert response.status_code in (400, 404), path
        error_of(response, response.status_code)
        assert "secret" not in response.text
        assert "import" not in response.text


def test_the_bench_report_has_its_own_policy(tmp_path):
    report = tmp_path / "report"
    report.mkdir()
    (report / "report.html").write_text("<style>p {color: red}</style><p>figures")
    (report / "secret.html").write_text("secret")
    with client(new_service(tmp_path, bench=report)) as http:
        for path in ("/bench/", "/bench/report.html"):
            page = http.get(path)
            assert "figures" in page.text
            assert page.headers["content-security-policy"] == REPORT_POLICY
            assert "script-src" not in REPORT_POLICY
        for path in ("/bench/secret.html", "/bench/report.md", "/bench/%2e%2e/shop/collection.sqlite"):
            assert error_of(http.get(path), 404) == "not_found"


INJECTIONS = (
    "'; DROP TABLE payload; --",
    '" OR 1=1 --',
    "x') OR ('1'='1",
    "$.a' , 1) --",
    "a\\",
    "%' OR '1'='1",
    "\ud800",
    "𝕏" * 50,
)


def test_filters_are_never_code(tmp_path):
    with client(new_service(tmp_path)) as http:
        for text in INJECTIONS:
            for where in ({"colour": text}, {text: "red"}, {"colour": {"in": [text]}}, {text: {"contains": text}}):
                body = {"ids": [1], "k": ROWS, "where": where}
                response = http.post(
                    f"{API}/search", content=_ascii(body), headers={"Content-Type": "application/json"}
                )
                if response.status_code == 200:
                    assert response.json()["results"][0]["hits"] == []
                else:
                    error_of(response, 400)
                response = http.request(
                    "DELETE",
                    f"{API}/items",
                    content=_ascii({"where": where}),
                    headers={**AUTH, "Content-Type": "application/json"},
                )
                assert response.status_code == 400 or response.json()["deleted"] == 0
        assert http.get(API).json()["rows"] == ROWS
        stored = [{"colour": text, text.replace("\0", ""): 1} for text in INJECTIONS if text.isprintable()]
        body = {"vectors": rows(len(stored)).tolist(), "payload": stored, "ids": list(range(100, 100 + len(stored)))}
        assert http.post(f"{API}/items", json=body, headers=AUTH).status_code == 200
        for place, item in enumerate(stored):
            assert http.get(f"{API}/items/{100 + place}").json()["payload"] == item
            found = http.post(f"{API}/search", json={"ids": [1], "where": {"colour": item["colour"]}}).json()
            assert [hit["id"] for hit in found["results"][0]["hits"]] == [100 + place]


def _ascii(body):
    return json.dumps(body).encode("ascii")


def test_a_missing_folder_of_pictures_is_said(tmp_path):
    make_shop(tmp_path)
    with pytest.raises(ValueError, match="no folder and no zip"):
        open_collection(str(tmp_path / "shop"), images=tmp_path / "none")
    (tmp_path / "bad.zip").write_bytes(os.urandom(100))
    with pytest.raises(ValueError, match=r"bad\.zip is damaged or cut short"):
        open_collection(str(tmp_path / "shop"), images=tmp_path / "bad.zip")


def test_a_picture_of_16_bits_is_not_white():
    """Pillow alone would cut every value at 255."""
    gray = np.full((6, 6), 100 * 257, dtype=np.uint16)
    image = ImageDecoder(Limits()).upload(as_png(gray), None)
    assert np.asarray(image)[0, 0].tolist() == [100, 100, 100]
