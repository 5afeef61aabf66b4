"""A user signs in to a server in a browser. The browser and the server are simulated on loopback."""

from __future__ import annotations

import re
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import Iterator

import pytest

import agf_magics as agf
from agf_magics import DefinitionError
from agf_magics.mcp.client import tokens
from tests.mcp.servers import call
from tests.mcp.sign_in_service import State, running


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    monkeypatch.setattr(tokens, "_MEMORY", {})
    monkeypatch.setitem(
        __import__("sys").modules, "keyring", None
    )  # tests leave no tokens in the keyring of the system
    for name in ("SSH_CONNECTION", "JUPYTERHUB_USER"):
        monkeypatch.delenv(name, raising=False)
    with running() as state:
        yield state
        agf.mcp.close_all()


@pytest.fixture(autouse=True)
def opened_pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that the browser should open. The simulated browser opens them."""
    pages: list[str] = []

    def browse(address: str) -> bool:
        pages.append(address)
        threading.Thread(target=lambda: urllib.request.urlopen(address).read()).start()
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    return pages


def test_a_user_signs_in_once_and_the_token_is_shown_nowhere(
    service: State, opened_pages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert len(opened_pages) == 1
    server.restart()
    assert len(opened_pages) == 1
    assert service.grants == ["authorization_code"]
    printed = capsys.readouterr()
    assert "t0ken" not in f"{printed.out}{printed.err}{server.log}{server!r}{server.problems}"


def test_an_expired_token_is_renewed_without_the_user(service: State, opened_pages: list[str]) -> None:
    service.expires = -1
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    server.restart()
    assert (len(opened_pages), service.thefts) == (1, 0)
    assert set(service.grants[1:]) == {"refresh_token"}


def test_a_token_that_another_connection_renewed_can_be_renewed(service: State, opened_pages: list[str]) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    for token in ("another", "a third"):
        server.restart()
        service.token = token  # ends the token of the connection
        assert call("web__who").output == "you"
    assert len(opened_pages) == 1


def test_of_two_connections_with_a_refused_token_one_renews_it(service: State, opened_pages: list[str]) -> None:
    for name in ("web", "mail"):
        agf.mcp.connect(name, f"{service.own}/mcp", sign_in=True)
    service.token = "another"  # ends the token of both
    assert [call(f"{name}__who").output for name in ("web", "mail", "web")] == ["you"] * 3
    assert (len(opened_pages), service.grants) == (1, ["authorization_code", "refresh_token"])


def test_the_port_for_the_browser_is_closed_with_the_connection(service: State, opened_pages: list[str]) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(opened_pages[0]).query)
    place = urllib.parse.urlsplit(query["redirect_uri"][0])
    socket.create_connection((place.hostname, place.port)).close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port))


def test_a_redirect_of_the_token_to_another_origin_is_not_followed(service: State) -> None:
    service.elsewhere = "http://localhost:9/token"
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert caught.value.diagnostics[0].code == "mcp.unreachable"


def test_rights_that_end_in_the_middle_fail_the_call_and_open_no_browser(
    service: State, opened_pages: list[str]
) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    service.forget()
    with pytest.raises(agf.StepError) as caught:
        call("web__who")
    assert len(opened_pages) == 1, "no browser is opened in the middle of a run"
    assert not any(word in str(caught.value) for word in ("t0ken", "re-fresh"))
    server.restart()
    assert len(opened_pages) == 2
    assert call("web__who").output == "you"


@pytest.mark.parametrize("expires", [3600, None])
def test_a_token_that_expires_in_the_middle_of_a_run_is_renewed(
    service: State, opened_pages: list[str], expires: int | None
) -> None:
    """This includes a token that ends too early, and a token without an announced lifetime."""
    service.expires = expires
    agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)

    @agf.tool(registry=agf.registry)
    def end_of_token() -> str:
        service.token = "another"
        return ""

    steps = "".join(f"\n- tool: {{name: {name}}}" for name in ("web__who", "end_of_token", "web__who"))
    assert agf.run(f"pipeline: main\nsteps:{steps}\n").output == "you"
    assert (len(opened_pages), service.grants) == (1, ["authorization_code", "refresh_token"])
    agf.registry.tools.remove("end_of_token")


FORGED = ["code=b4d&state=forged", "code=b4d", "error=access_denied", "error=access_denied&state=", "state=%FF", ""]


def test_an_answer_with_a_wrong_state_is_ignored_while_the_person_signs_in(
    service: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []

    def browse(address: str) -> bool:
        back = dict(urllib.parse.parse_qsl(address.partition("?")[2]))["redirect_uri"]
        for query in FORGED:
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{back}?{query}")
        pages.append(urllib.request.urlopen(address).read().decode())
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert pages == ["You are signed in. Close this page."]
    assert service.codes == ["c0de"]


def test_a_pasted_address_with_a_wrong_state_is_refused(service: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")
    monkeypatch.setattr("builtins.input", lambda prompt: "http://127.0.0.1/callback?code=b4d&state=forged")
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert caught.value.diagnostics[0].code == "mcp.unreachable"
    assert service.grants == []


def test_a_refused_sign_in_is_reported(service: State, monkeypatch: pytest.MonkeyPatch) -> None:
    def browse(address: str) -> bool:
        query = dict(urllib.parse.parse_qsl(address.partition("?")[2]))
        back = urllib.parse.urlencode({"error": "access_denied", "state": query["state"]})
        page = urllib.request.urlopen(f"{query['redirect_uri']}?{back}").read()
        assert page == b"The sign-in was refused. Close this page."
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    with pytest.raises(DefinitionError, match="refused: access_denied"):
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)


def test_who_gets_no_token_reads_the_words_of_the_service(service: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "grant", lambda form: None)
    with pytest.raises(DefinitionError, match=re.escape('Token exchange failed (400): {"error": "invalid_grant"}')):
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)


def test_without_signing_in_the_error_says_how(service: State, opened_pages: list[str]) -> None:
    with pytest.raises(DefinitionError, match="--sign-in"):
        agf.mcp.connect("web", f"{service.own}/mcp")
    assert opened_pages == []


def test_with_a_browser_on_another_computer_the_user_pastes_the_address(
    service: State, opened_pages: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")

    def paste(prompt: str) -> str:
        page = capsys.readouterr().out.split("sign in: ")[1].split()[0]
        query = dict(urllib.parse.parse_qsl(page.partition("?")[2]))
        return f"{query['redirect_uri']}?code=c0de&state={query['state']}"

    monkeypatch.setattr("builtins.input", paste)
    agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert opened_pages == []
