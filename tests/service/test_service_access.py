"""Several tokens, failed logins, the access log, TLS: as a real ``hashlearn serve`` has them."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess

import httpx
import pytest
from service_box import API, ROWS, command, make_shop, new_service, rows, running

from hashlearn import cli
from hashlearn.service.run import listen
from hashlearn.service.service import AccessLog
from hashlearn.service.settings import ServerSettings, Token, parse_tokens, read_tokens

pytestmark = pytest.mark.slow

READER, WRITER = "reader-token-0123456789", "writer-token-0123456789"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_file_of_tokens():
    text = f"# of the shop\nread {READER} dashboard\n\nwrite {WRITER}\n"
    assert parse_tokens(text, "tokens") == (Token(READER, False, "dashboard"), Token(WRITER, True, "write-4"))
    assert parse_tokens(WRITER, "HASHLEARN_TOKEN") == (Token(WRITER, True, "write-1"),)
    for bad, says in (
        (f"admin {WRITER}", "Line 1 of tokens must be TOKEN"),
        (f"read {READER} a b", "Line 1 of tokens must be TOKEN"),
        (f"read {READER}\nwrite {READER}", "twice"),
        (f"{WRITER}\nread short", "Line 2 of tokens: A token must have at least 16"),
    ):
        with pytest.raises(ValueError, match=says) as caught:
            parse_tokens(bad, "tokens")
        assert READER not in str(caught.value)
        assert WRITER not in str(caught.value)


def test_a_token_that_only_reads_closes_reading_to_others():
    assert not ServerSettings(tokens=(Token(WRITER),)).reading_needs_token
    assert ServerSettings(tokens=(Token(WRITER), Token(READER, False))).reading_needs_token
    assert not ServerSettings(tokens=(Token(READER, False),)).may_write


def test_readers_and_writers(tmp_path):
    make_shop(tmp_path)
    tokens, log = tmp_path / "tokens", tmp_path / "access.log"
    tokens.write_text(f"read {READER} dashboard\nwrite {WRITER} importer\n")
    tokens.chmod(0o644)
    body = {"vectors": rows(1).tolist()}
    with command("serve", tmp_path / "shop", "--token-file", tokens, "--access-log", log) as (server, url):
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            assert http.get("/healthz").status_code == 200
            asked = [
                http.get(API),
                http.get(API, headers=bearer("wrong-token-0123456789")),
                http.get(API, auth=("me", "wrong-token-0123456789")),
                http.get(API, headers=bearer(READER)),
                http.get(API, auth=("me", READER)),
                http.post(f"{API}/search?secret=1", json={"ids": [1]}, headers=bearer(READER)),
                http.post(f"{API}/items", json=body, headers=bearer(READER)),
                http.post(f"{API}/items", json=body, auth=("me", WRITER)),
                http.post(f"{API}/items", json=body, headers=bearer(WRITER)),
            ]
            assert [answer.status_code for answer in asked] == [401, 401, 401, 200, 200, 200, 403, 401, 200]
            assert asked[6].json()["error"]["code"] == "read_only_token"
            assert http.get(API, headers=bearer(READER)).json()["rows"] == ROWS + 1
            figures = http.get("/metrics", headers=bearer(READER)).text
        # A client without any token is no failed login: a browser begins so.
        assert "hashlearn_failed_logins_total 3.0" in figures
        server.terminate()
        said = server.communicate(timeout=60)[1]
    assert f"warning: every user of this machine can read the tokens in {tokens}" in said
    assert said.count("Failed login from 127.0.0.1") == 3
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines[1:10]] == [answer.status_code for answer in asked]
    assert [line["token"] for line in lines[4:10]] == [
        "dashboard",
        "dashboard",
        "dashboard",
        "dashboard",
        "importer",
        "importer",
    ]
    search = lines[6]
    assert (search["method"], search["path"], search["client"]) == ("POST", f"{API}/search", "127.0.0.1")
    assert search["bytes"] == len(asked[5].content)
    assert 0 < search["seconds"] < 60
    whole = log.read_text() + said
    assert READER not in whole
    assert WRITER not in whole
    assert "secret" not in whole


def test_no_log_and_no_warning_unless_there_is_a_reason(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(WRITER)
    tokens.chmod(0o600)
    make_shop(tmp_path)
    with command("serve", tmp_path / "shop", "--token-file", tokens) as (server, url):
        assert httpx.get(f"{url}{API}", timeout=60).status_code == 200
        server.terminate()
        said = server.communicate(timeout=60)[1]
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "serving shop; writing with a token; Ctrl-C ends it.",
        "stopped.",
    ]


def test_tls(tmp_path, capsys):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate of this test")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    options += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, "req", "-x509", *options], check=True, capture_output=True)
    make_shop(tmp_path)
    with command("serve", tmp_path / "shop", "--tls-certificate", certificate, "--tls-key", key) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=url, verify=trusted, timeout=60, trust_env=False) as http:
            assert http.get(API).json()["rows"] == ROWS
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https", "http") + "/healthz", timeout=60, trust_env=False)
    shop = str(tmp_path / "shop")
    assert cli.main(["serve", shop, "--port", "0", "--tls-certificate", str(certificate)]) == 2
    assert "both --tls-certificate and --tls-key" in capsys.readouterr().err
    assert cli.main(["serve", shop, "--port", "0", "--tls-certificate", str(key), "--tls-key", str(key)]) == 1
    assert "TLS certificate or key cannot be used" in capsys.readouterr().err


def test_token_files_that_cannot_be_read_are_said(tmp_path):
    with pytest.raises(OSError, match=r"Cannot read the tokens in .*nothing: No such file"):
        read_tokens(tmp_path / "nothing")
    (tmp_path / "utf16").write_bytes(WRITER.encode("utf-16"))
    with pytest.raises(ValueError, match="utf16 holds no tokens: it is no text in UTF-8"):
        read_tokens(tmp_path / "utf16")
    (tmp_path / "windows").write_bytes(b"\xef\xbb\xbf" + WRITER.encode())
    assert [token.secret for token in read_tokens(tmp_path / "windows")] == [WRITER]


def test_a_path_cannot_forge_lines_of_the_log(tmp_path, caplog):
    service = new_service(tmp_path, tokens=(Token(WRITER), Token(READER, False)))
    with running(service) as url, httpx.Client(base_url=url, trust_env=False) as http:
        path = "/x%0aFailed%20login%20from%201.2.3.4%1b[2J"
        assert http.get(path, headers=bearer("wrong-token-0123456789")).status_code == 401
    (line,) = [record.getMessage() for record in caplog.records if "Failed login" in record.getMessage()]
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith(r"GET /x\nFailed login from 1.2.3.4\x1b[2J")


def test_an_access_log_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(OSError, match=r"Cannot write the access log .*: No such file"):
        AccessLog(str(tmp_path / "nothing" / "log"))


def test_a_host_that_does_not_exist_is_said():
    with pytest.raises(OSError, match=r"Cannot listen on no\.such\.host\.invalid:0: .*(not known|resolution)"):
        listen("no.such.host.invalid", 0)
