"""Tests that faults of addresses, keys and certificate files are explained, before or after a request to a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from agf_magics.catalog.models.connections import (
    address_fault,
    certificates_fault,
    environment_fault,
    proxy_of,
)

EXAMPLE = "write an address such as http://127.0.0.1:8000/v1"
NO_SCHEME = "does not begin with http:// or https://"

ADDRESSES: list[tuple[str, str, str]] = [
    # the address, what is wrong with it, the hint
    ("http://127.0.0.1:8000/v1", "", ""),
    ("https://host.example/v1", "", ""),
    ("http://host:1", "", ""),
    ("http://host:65535", "", ""),
    ("localhost:8000/v1", NO_SCHEME, "write http://localhost:8000/v1"),
    ("127.0.0.1/v1", NO_SCHEME, "write http://127.0.0.1/v1"),
    ("host.example:8000", NO_SCHEME, "write http://host.example:8000"),
    ("host.example:8/v1", NO_SCHEME, "write http://host.example:8/v1"),
    ("host.example/v1", NO_SCHEME, "write https://host.example/v1"),
    ("host.example:x8", NO_SCHEME, ""),
    ("http:/host.example/v1", NO_SCHEME, "write https://host.example/v1"),
    ("https//host.example/v1", NO_SCHEME, "write https://host.example/v1"),
    (" http://host/v1", "has a blank or a quote", "write http://host/v1"),
    ('"http://host/v1"', "has a blank or a quote", "write http://host/v1"),
    ("http://ho\u200bst/v1", "has a blank or a quote", "write http://host/v1"),
    ("http://host/v1\n", "has a line break", "write http://host/v1"),
    ("ftp://host/v1", "begins with ftp://, not with http:// or https://", EXAMPLE),
    ("http:///v1", "names no server", EXAMPLE),
    ("http://host/v1?version=2", "has a '?', and an address ends with its path", "leave out the '?' and what follows"),
    ("host/v1?", "has a '?', and an address ends with its path", "leave out the '?' and what follows"),
    ("http://host/v1#top", "has a '#', and an address ends with its path", "leave out the '#' and what follows"),
    ("http://host:0", "has a port that is no number from 1 to 65535", EXAMPLE),
    ("http://host:65536", "has a port that is no number from 1 to 65535", EXAMPLE),
    ("http://host:port", "has a port that is no number from 1 to 65535", EXAMPLE),
]


@pytest.mark.parametrize(("url", "wrong", "hint"), ADDRESSES, ids=lambda value: repr(value))
def test_the_form_of_an_address(url: str, wrong: str, hint: str) -> None:
    fault = address_fault("the address", url)
    if not wrong:
        assert fault is None
        return
    assert fault is not None
    assert fault.code == "model.address"
    if hint:
        assert fault.diagnostic.message.endswith(f" {wrong}")
        assert fault.diagnostic.hint == hint
    assert fault.diagnostic.message.startswith("the address '")


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


STRIP = 'os.environ["OPENAI_API_KEY"] = os.environ["OPENAI_API_KEY"].strip()'
COPY = "copy it again from the provider's page, and set os.environ['OPENAI_API_KEY']"

KEYS: list[tuple[str, str, str]] = [
    ("abc", "", ""),
    ("", "", ""),
    ("!~", "", ""),
    (" ", "has blanks only", COPY),
    ("abc ", "has a blank at its end", STRIP),
    (" abc", "has a blank at its beginning", STRIP),
    ("abc\n", "has a line break at its end", STRIP),
    ("\rabc", "has a line break at its beginning", STRIP),
    ("a c ", "has a blank at its end", COPY),
    ("a\nc", "has a line break in it", COPY),
    ("a c", "has the character U+0020 (space)", COPY),
    ("a…c", "has the character U+2026 (horizontal ellipsis)", COPY),
    ("a\x01c", "has the character U+0001 (a control character)", COPY),
]
"""A key, what is wrong with it, and the hint; empty: nothing is wrong."""


@pytest.mark.parametrize(("key", "wrong", "hint"), KEYS, ids=repr)
def test_what_is_in_no_key(key: str, wrong: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    fault = environment_fault("openai-chat", "")
    assert (fault and fault.code) == ("model.key" if wrong else None)
    if fault is not None:
        assert fault.diagnostic.message == f"OPENAI_API_KEY {wrong}, which no key has"
        assert fault.diagnostic.hint == hint


@pytest.mark.parametrize(
    ("variable", "provider", "base_url", "is_sent"),
    [
        ("OPENAI_API_KEY", "openai", "", True),
        ("OPENAI_API_KEY", "openai", "http://127.0.0.1:1/v1", False),
        ("OPENAI_API_KEY", "anthropic", "", False),
        ("ANTHROPIC_API_KEY", "anthropic", "", True),
        ("OPENAI_ORG_ID", "openai", "http://127.0.0.1:1/v1", True),
        ("OPENAI_ORG_ID", "openai", "", True),
        ("OPENAI_ORG_ID", "anthropic", "", False),
        ("OTHER_TOKEN", "other", "", True),
        ("OTHER_NAME", "other", "", False),
    ],
)
def test_only_what_a_request_sends_must_be_right(
    variable: str, provider: str, base_url: str, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "a b")
    assert (environment_fault(provider, base_url) is not None) == is_sent


def test_an_address_of_the_environment_counts_where_no_other_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://host")
    fault = environment_fault("openai", "")
    assert fault is not None
    assert fault.diagnostic.message.startswith("OPENAI_BASE_URL 'ftp://host' begins with ftp://")
    assert environment_fault("openai", "http://host/v1") is None
    assert environment_fault("anthropic", "") is None
    fault_of_address = environment_fault("openai", "ftp://other")
    assert fault_of_address is not None
    assert fault_of_address.diagnostic.message.startswith("the address 'ftp://other' begins")


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(error: Exception) -> tuple[str, str | None] | None:
        fault = certificates_fault(error, "m")
        return (fault.diagnostic.message, fault.diagnostic.hint) if fault is not None else None

    file, gone = tmp_path / "file.pem", tmp_path / "gone"
    file.write_text("no certificate", "utf-8")
    assert told(OSError()) is None
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert told(OSError()) is None, "the folder is there"
    monkeypatch.setenv("SSL_CERT_DIR", str(file))
    no_folder = f"m cannot be asked: SSL_CERT_DIR names {str(file)!r}, which is not there"
    assert told(OSError()) == (no_folder, "del os.environ['SSL_CERT_DIR']")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    unread = f"m cannot be asked: SSL_CERT_FILE names {str(file)!r}, which cannot be read"
    assert told(OSError()) == (unread, "del os.environ['SSL_CERT_FILE']")
    monkeypatch.setenv("SSL_CERT_FILE", str(gone))
    absent = f"m cannot be asked: SSL_CERT_FILE names {str(gone)!r}, which is not there"
    assert told(OSError()) == (absent, "del os.environ['SSL_CERT_FILE']")
    assert told(ValueError()) is None


@pytest.mark.parametrize(
    ("proxies", "where", "expected"),
    [
        ({}, "http://host/v1", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://host/v1", ("http_proxy", "http://p:1", "host")),
        ({"http_proxy": "http://p:1"}, "http://host/v1", ("http_proxy", "http://p:1", "host")),
        ({"HTTP_PROXY": "http://p:1"}, "https://host/v1", None),
        ({"ALL_PROXY": "http://p:2"}, "https://host/v1", ("all_proxy", "http://p:2", "host")),
        ({"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://p:2"}, "https://h/v1", ("https_proxy", "http://p:1", "h")),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "other,host"}, "http://host/v1", None),
        ({"HTTP_PROXY": "http://p:1"}, "", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://[host", None),
    ],
)
def test_the_proxy_that_is_asked_for_an_address(
    proxies: dict[str, str], where: str, expected: tuple[str, str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    proxy = proxy_of(where)
    assert (proxy and (proxy.variable.lower(), proxy.address, proxy.host)) == expected  # Windows has one case
