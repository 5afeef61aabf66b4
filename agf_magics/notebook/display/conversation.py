"""The conversations of models as plain HTML, for reports and for what a cell saves."""

from __future__ import annotations

from collections.abc import Iterator

from ...lifecycle.runs.run import Run
from ...pictures.markdown import markdown_html
from ...pictures.plain import details, html, line, lines_html
from ...pictures.values import BLOCK, shown_html
from ..explorer.replies import reply_to
from ..explorer.request_types import AnyRun, Json
from ..explorer.requests import requests_of, session_of

MOST_CONVERSATIONS = 20
"""The most conversations of a run that a cell saves."""
MOST_SAVED = 60_000
"""The most characters of HTML of the conversations that a cell saves."""


def conversations_html(run: Run) -> str:
    """The first conversation of each model and agent of a run, folded; empty if the run or its journal
    has no conversation."""
    shown = ""
    for number, (title, messages) in enumerate(_conversations(run)):
        part = details(
            f"conversation · {html(title)}",
            f'<div style="padding-left:1.2em">{"".join(map(message_html, messages))}</div>',
        )
        if number == MOST_CONVERSATIONS or len(shown) + len(part) > MOST_SAVED:
            code = html(f"agf.report({run.run_id!r}, 'run.html')")
            return f"{shown}<p><em>… more conversations: <code>{code}</code></em></p>"
        shown += part
    return shown


def _conversations(run: AnyRun) -> Iterator[tuple[str, list[Json]]]:
    """The titles of the steps that hold a conversation, each with the messages."""
    requests = requests_of(run)
    seen = set[str]()
    error = run.secrets.text(run.error.diagnostic.message) if run.error is not None else "\0"
    for row in list(run.progress.rows.values()):
        id = session_of(run, row)
        if not id or id in seen:
            continue
        seen.add(id)
        answer = reply_to({"do": "session", "with": {"step": id}}, requests)
        if answer["ok"] and answer["value"]["messages"]:
            messages = answer["value"]["messages"]
            for message in messages:
                # The page has the error of the run, but not that of each step.
                if message.get("told") and error not in message["error"]:
                    del message["told"]
            yield run.secrets.text(line(row.name, 80)), messages


def message_html(message: Json) -> str:
    """A message that the model was sent, or a reply with its calls, each with its result. An error that
    stands above the conversation is left out."""
    facts = [message[key] for key in ("who", "name", "took", "used") if message.get(key)]
    if "end" in message:
        facts.append(f"✗ {message['end']}")
    parts = [_dim(" · ".join(facts))]
    if thinking := message.get("thinking"):
        parts.append(details("thinking", lines_html(html(thinking), BLOCK)))
    if not message.get("told"):
        parts.append(_error(message))
    if text := message.get("text"):
        is_reply = message["who"] == "model"  # JupyterLab does not render Markdown inside HTML
        part = markdown_html(text) if is_reply else lines_html(html(text), BLOCK)
        parts.append(details(html(message["title"]), part) if "title" in message else part)
    for call in message.get("calls", ()):
        # A call that still arrives has no arguments yet.
        arguments = _value(call["arguments"]) if "arguments" in call else ""
        name = f"⚙ <strong>{html(call['tool'])}</strong> {html(call.get('given', ''))}"
        parts.append(f'<p style="margin:0">{name}</p>{arguments}{_result(call)}')
    return "".join([*parts, _dim(message["more"]) if "more" in message else ""])


def _result(call: Json) -> str:
    """The result of a call below the call; empty if it is not known."""
    if not {"result", "error", "text"} & call.keys():
        return ""
    text = lines_html(html(call["text"]), BLOCK) if "text" in call else ""
    value = _value(call["result"]) if "result" in call else ""
    took = f" · {call['took']}" if call.get("took") else ""
    return (
        f'<div style="padding-left:1.2em">{_dim(f"result{took}")}{_error(call)}{text}{value}</div>'
    )


def _error(part: Json) -> str:
    error = part.get("error")
    return lines_html(html(error), BLOCK, "error") if error else ""


def _dim(words: str) -> str:
    return f'<p class="dim" style="margin:4px 0 0"><em>{html(words)}</em></p>'


def _value(value: Json) -> str:
    return shown_html(value, is_whole=True)
