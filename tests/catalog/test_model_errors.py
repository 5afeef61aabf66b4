"""Tests of the errors of failed requests to a model: code, message and hint for each error of the library."""

from __future__ import annotations

import socket
import ssl
from itertools import pairwise
from typing import Any

import pytest

from agf_magics.catalog.models.errors import (
    breaks_off,
    explain_failure,
    filter_fault,
    server_failed,
    timeout_fault,
)
from agf_magics.catalog.models.model_fault import caused_by, causes, fault, in_line, without_keys

URL = "http://127.0.0.1:1/v1"


def error(kind: str, *given: Any, **attributes: Any) -> Exception:
    """An error of a library, which is known by the name of its class and by its attributes."""
    exception: Exception = type(kind, (Exception,), {})(*given)
    vars(exception).update(attributes)
    return exception


def http(status: int, message: str = "no", **more: Any) -> Exception:
    return error("ModelHTTPError", f"status_code: {status}", status_code=status, body={"message": message}, **more)


def caused(raised: Exception, *inner: BaseException) -> Exception:
    """``raised``, with its cause, the cause of that, and so on."""
    for outer, cause in pairwise((raised, *inner)):
        outer.__cause__ = cause
    return raised


LATER = "try again later"
SET_KEY = "set OPENAI_API_KEY in the environment (os.environ), not in a saved cell, and run again"
RESUME = "run again, or %resume the run to repeat only this request"

ERRORS: dict[str, tuple[Exception, str, str, str | None, bool]] = {
    "401": (http(401), "model.key-refused", "openai:m does not accept the key: 401, no", SET_KEY, False),
    "403": (http(403), "model.key-refused", "openai:m does not accept the key: 403, no", SET_KEY, False),
    "402": (http(402), "model.quota", "openai:m has no credit left: 402, no", "see the provider's billing page", False),
    "404": (
        *(http(404), "model.not-found", "openai:m is not known: 404, no"),
        "use the provider's name of the model; the address of a server ends with its version, such as /v1",
        False,
    ),
    "429": (
        *(http(429), "model.rate-limit", "openai:m receives too many requests: 429, no"),
        *("lower max_parallel, or try later", True),
    ),
    "408": (http(408), "model.server", "openai:m has an internal error: 408, no", LATER, True),
    "503": (http(503), "model.server", "openai:m has an internal error: 503, no", LATER, True),
    "400": (http(400), "model.rejected", "openai:m rejects the request: 400, no", None, False),
    "400, of tools": (
        *(http(400, "no Tool use"), "model.rejected", "openai:m rejects the request: 400, no Tool use"),
        *("the server may need an option to allow tools (vLLM: --enable-auto-tool-choice)", False),
    ),
    "too long": (
        error("ModelContextWindowExceededError", "long", status_code=400),
        *("model.rejected", "openai:m rejects the request: long"),
        *("the messages are too long: let tools return less, or use fewer steps", False),
    ),
    "filtered": (
        error("ContentFilterError", "bad"),
        *("model.filtered", "openai:m gives no answer, by the rules of its provider: bad"),
        *("rephrase the prompt, or use another model", False),
    ),
    "too late": (
        error("ModelTimeoutError", "late"),
        *("model.timeout", "openai:m did not reply", "%config AgfMagics.model_timeout sets the time limit", False),
    ),
    "no reply": (
        error("UnexpectedModelBehavior", "odd\nand more"),
        *("model.reply", "the answer of openai:m is not a model's reply: odd"),
        *("the address may be that of another kind of server, a proxy or a web page", False),
    ),
    "an answer that is not decoded": (
        error("JSONDecodeError", "cannot Decode it"),
        *("model.reply", "the answer of openai:m is not a model's reply: cannot Decode it"),
        *("the address may be that of another kind of server, a proxy or a web page", False),
    ),
    "an answer that cannot be read": (
        error("AnswerUnreadable", "too large"),
        *("model.reply", "the answer of openai:m cannot be read: too large"),
        *("is its address that of another kind of server?", False),
    ),
    "broken off": (
        error("BrokenOff", ValueError("reset")),
        *("model.broken-off", "the reply of openai:m ended in the middle: reset"),
        "the row of the step shows what arrived; run again, or %resume the run to repeat only this request",
        False,
    ),
    "broken off, said by its cause": (
        caused(error("Odd"), error("AnswerBroken", "reset")),
        *("model.broken-off", "the reply of openai:m ended in the middle: reset"),
        "the row of the step shows what arrived; run again, or %resume the run to repeat only this request",
        False,
    ),
    "without its end": (
        error("AnswerUnended"),
        *("model.unended", "the reply of openai:m ended without its end mark: it is not complete"),
        f"{RESUME}; a proxy with a short time limit is the usual cause",
        False,
    ),
    "another error": (
        error("Odd", "what\nmore"),
        *("model.failed", "the request to openai:m failed: Odd: what", None, False),
    ),
    "an error without words": (error("Odd"), "model.failed", "the request to openai:m failed: Odd: Odd", None, False),
}
"""For each failure: the exception, its code, message and hint, and whether the model is asked again."""


@pytest.mark.parametrize("case", ERRORS)
def test_a_failed_request_says_why_and_what_to_do(case: str) -> None:
    raised, code, message, hint, again = ERRORS[case]
    explained = explain_failure(raised, "openai:m", "")
    assert (explained.code, explained.diagnostic.message, explained.diagnostic.hint, explained.again) == (
        code,
        message,
        hint,
        again,
    )


def test_the_address_of_a_server_stands_in_the_message() -> None:
    assert explain_failure(http(404), "m", URL).diagnostic.message == f"m is not known at {URL}: 404, no"
    unreached = caused(error("ModelConnectionError"), OSError("odd"))
    assert explain_failure(unreached, "m", "").diagnostic.message == "there is no server for m: the connection failed"


@pytest.mark.parametrize(
    ("model", "is_own_server", "hint"),
    [
        ("anthropic:m", False, "set ANTHROPIC_API_KEY in the environment"),
        ("google:m", False, "set GOOGLE_API_KEY or GEMINI_API_KEY in the environment"),
        ("other:m", False, "set the variable that its provider names in the environment"),
        ("openai:m", True, "this server needs a key: agf.registry.choose(MODEL) with a model object"),
        ("ollama:m", False, "this server needs a key: agf.registry.choose(MODEL) with a model object"),
    ],
)
def test_whose_key_it_is_that_was_refused(model: str, is_own_server: bool, hint: str) -> None:
    assert (explain_failure(http(401), model, "", is_own_server).diagnostic.hint or "").startswith(hint)


def test_only_what_can_be_asked_again_has_a_delay() -> None:
    delays = [explain_failure(http(status, retry_after=7.0), "m", "").after for status in (429, 503, 400, 401)]
    assert delays == [7.0, 7.0, None, None]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "slow\n down"}}, "400, slow"),
        ({"error": "slow"}, "400, slow"),
        ({"message": "slow"}, "400, slow"),
        ("slow", "400, slow"),
        (None, "its words"),
        ({"error": {}}, "its words"),
    ],
)
def test_the_words_of_the_provider_are_one_line(body: object, message: str) -> None:
    raised = error("ModelHTTPError", "its words", status_code=400, body=body)
    assert explain_failure(raised, "m", "").diagnostic.message == f"m rejects the request: {message}"


def test_a_reply_that_is_no_answer_has_the_same_words() -> None:
    messages = [filter_fault("m", "bad\nword"), server_failed("m", "oops"), breaks_off("m"), timeout_fault("m", None)]
    assert [(fault.code, fault.diagnostic.message, fault.again) for fault in messages] == [
        ("model.filtered", "m gives no answer, by the rules of its provider: bad word", False),
        ("model.server", "m has an internal error: oops", True),
        ("model.unended", "the reply of m ended without its end mark: it is not complete", False),
        ("model.timeout", "m did not reply", False),
    ]
    assert timeout_fault("m", 2.5).diagnostic.message == "m did not reply within 2.5 s"


# --- connections ---


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
BASES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL")


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *BASES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


ONLINE = "connect this computer to the network, and run again"
CLOSED = "its log may say why; the address may also need https://, or be that of another program"

CONNECTIONS: dict[str, tuple[list[Any], str, str, str]] = {
    "refused": (
        *([ConnectionRefusedError()], "model.no-server"),
        *("there is no server for openai:m at HOST: the connection was refused", ONLINE),
    ),
    "no answer": (
        *([TimeoutError()], "model.no-server"),
        *("there is no server for openai:m at HOST: it does not answer", ONLINE),
    ),
    "another error of the system": (
        *([OSError("odd")], "model.no-server"),
        *("there is no server for openai:m at HOST: the connection failed", ONLINE),
    ),
    "another error": (
        *([error("Odd")], "model.no-server"),
        *("there is no server for openai:m at HOST: Odd", ONLINE),
    ),
    "no name": (
        *([OSError(), socket.gaierror()], "model.no-server"),
        "there is no server for openai:m at HOST: its name is not known",
        "correct the address, or connect to its network",
    ),
    "closed": (
        *([ConnectionResetError()], "model.no-server"),
        *("the server of openai:m at HOST closed the connection without an answer", CLOSED),
    ),
    "closed, by the name of the error": (
        *([error("RemoteProtocolError"), error("Odd")], "model.no-server"),
        *("the server of openai:m at HOST closed the connection without an answer", CLOSED),
    ),
    "no TLS": (
        *([ssl.SSLError()], "model.certificate"),
        *("the server of openai:m at HOST does not speak TLS", "write http:// if it has no certificate"),
    ),
    "a certificate": (
        *([error("SSLCertVerificationError", verify_message="expired")], "model.certificate"),
        "the certificate of the server of openai:m at HOST is not trusted: expired",
        "os.environ['SSL_CERT_FILE'] = '…' names a file with the certificates that you trust, such as those of your "
        "company",
    ),
    "a port": (
        *([OverflowError()], "model.address"),
        *("the address of openai:m at HOST has a port out of range", ""),
    ),
    "a header": (
        *([UnicodeEncodeError("ascii", "é", 0, 1, "no")], "model.key"),
        "a header of the request to openai:m has a character that no header may have",
        "copy the key again, without blanks and quotes",
    ),
    "a header, said by the library": (
        *([error("LocalProtocolError")], "model.key"),
        "a header of the request to openai:m has a character that no header may have",
        "copy the key again, without blanks and quotes",
    ),
}


@pytest.mark.parametrize("case", CONNECTIONS)
def test_a_connection_that_failed_says_why_and_what_to_do(case: str) -> None:
    inner, code, message, hint = CONNECTIONS[case]
    explained = explain_failure(caused(error("ModelConnectionError"), *inner), "openai:m", "http://far.example/v1")
    assert (explained.code, explained.diagnostic.hint or "", explained.again) == (code, hint, False)
    assert explained.diagnostic.message == message.replace("HOST", "http://far.example/v1")


@pytest.mark.parametrize(
    ("model", "is_own_server", "variable", "hint"),
    [
        ("ollama:m", False, "", "start it: ollama serve (OLLAMA_BASE_URL sets another address)"),
        ("openai:m", True, "", "start the server, or set its address: %config AgfMagics.model_base_url = …, or"),
        ("openai-chat:m", False, "OPENAI_BASE_URL", "start the server, or correct os.environ['OPENAI_BASE_URL']"),
        (
            "google:m",
            False,
            "GOOGLE_GEMINI_BASE_URL",
            "start the server, or correct os.environ['GOOGLE_GEMINI_BASE_URL']",
        ),
        ("google:m", False, "OPENAI_BASE_URL", ONLINE),
        ("openai:m", True, "OPENAI_BASE_URL", "start the server, or set its address:"),
    ],
)
def test_whose_server_it_is_that_is_not_there(
    model: str, is_own_server: bool, variable: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, URL)
    message = explain_failure(
        caused(error("ModelConnectionError"), ConnectionRefusedError()), model, URL, is_own_server
    )
    assert (message.diagnostic.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("raised", "where", "not_to", "hint"),
    [
        (caused(error("ModelConnectionError"), OSError()), "http://far.example/v1", "", "far.example"),
        (
            caused(error("ModelConnectionError"), OSError()),
            "http://far.example/v1",
            "a.example",
            "a.example,far.example",
        ),
        (caused(error("Odd"), error("ProxyError")), "http://far.example/v1", "", "far.example"),
        (http(407), "http://far.example/v1", "", "far.example"),
        (http(502), URL, "", "127.0.0.1"),
        (error("UnexpectedModelBehavior", "odd"), URL, "", "127.0.0.1"),
    ],
)
def test_a_proxy_that_does_not_reach_the_server_is_named(
    raised: Exception, where: str, not_to: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    if not_to:
        monkeypatch.setenv("NO_PROXY", not_to)
    message = explain_failure(raised, "m", where)
    assert message.code == "model.proxy"
    assert message.diagnostic.message == (
        f"m at {where} is not reached by the proxy http://proxy.example:3128 of http_proxy"
    )
    assert message.diagnostic.hint == f'os.environ["NO_PROXY"] = "{hint}" asks no proxy for it'


@pytest.mark.parametrize(
    ("raised", "where", "code"),
    [
        (http(502), "http://far.example/v1", "model.server"),
        (error("Odd", "odd"), URL, "model.failed"),
        (error("ModelTimeoutError"), "http://far.example/v1", "model.timeout"),
        (caused(error("Odd"), ConnectionRefusedError()), "", "model.failed"),
    ],
)
def test_a_proxy_is_not_blamed_for_what_a_server_says(
    raised: Exception, where: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert explain_failure(raised, "m", where).code == code


# --- keys ---


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no key sk-abcdef1 here", "no key ••• here"),
        ("sk-abc is short", "sk-abc is short"),
        ("Bearer a.b-c", "•••"),
        ("AIzaSyA1234567890", "•••"),
        ("https://me:pass@host/v1", "https://•••host/v1"),
        ("https://host/v1?api_key=abc&n=1", "https://host/v1?api_key=•••&n=1"),
        ("https://host/v1?n=1&Access-Token=abc: refused", "https://host/v1?n=1&Access-Token=•••: refused"),
        ("the value of the environment: hunter2-hunter2", "the value of the environment: •••"),
        ("the shorter one: hunter2-", "the shorter one: •••"),
        ("a short one of the environment: hunter", "a short one of the environment: hunter"),
    ],
)
def test_no_text_of_an_error_has_a_key(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2-")  # 8 characters; the longer one goes first
    monkeypatch.setenv("OTHER_KEY", "hunter")
    raised = fault("model.failed", text, text)
    assert (raised.diagnostic.message, raised.diagnostic.hint) == (shown, shown)
    assert without_keys(text) == shown


def test_a_long_text_is_cut() -> None:
    assert in_line("a\n b\t c") == "a b c"
    assert in_line("x" * 300) == "x" * 300
    assert in_line("x" * 301) == "x" * 300 + "…"


def test_what_caused_an_error_is_found_by_its_name_to_the_innermost_and_in_a_group() -> None:
    inner, middle = error("Inner"), error("Middle")
    outer = ExceptionGroup("both", [middle, error("Other")])
    middle.__context__, inner.__cause__ = inner, outer  # a circle
    assert list(causes(outer)) == [outer, middle, inner]
    assert caused_by(outer, "Inner") is inner
    assert caused_by(outer, "Other") is None
    assert list(causes(None)) == []
