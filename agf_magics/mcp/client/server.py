"""`Server`, a connected server: its state, its tools on the registry, and the calls to it.

A server that ends by itself is started again by the next call, and its tools stay on the registry.
A method that is not `async` may be called on any thread. `call` may be awaited on any loop; the
other `async` methods run on the home loop (home_loop.py).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from ...catalog import Registry, Throttle, ToolContext
from ...catalog.shelf import Gone
from ...schemas.json_schema import judge
from ...schemas.violations import describe_all
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError
from ...values.value import Value
from .connecting import Target
from .elicitation import Call
from .foreign_text import LONGEST_ERROR, Masked, clean, describe
from .home_loop import HomeLoop
from .listing import MOST_TOOLS, READER, Listed, left_out, reader_of_links, usable_tools
from .results import contents, is_wrapped, links, text_of, value_of
from .session import CLOSING, NotTaken, Session
from .tools import Owner, make_tool

State = Literal["closed", "opening", "open", "failed"]

FAILURES = 3
"""Failed starts in a row after which the server is not started for `REST` seconds."""
REST = 30.0
"""Seconds."""
MOST_NOTES = 50
"""Different warnings and notes about a server; further ones are lost."""
MOST_LINKS = 10_000
"""Addresses in results that may be read; further ones cannot."""
LONGEST_LINK = 8_000
"""Characters of an address of a resource; a longer one cannot be read."""
LOG_LINES = 100
"""The last messages of the server's log that are kept."""
STDERR_PIECES = 200
"""The last pieces of stderr that are kept, as they were read."""
LONGEST_STDERR = 20_000
"""The last characters of stderr that are shown."""


class Server:
    """A server that `agf.mcp.connect` has connected."""

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        only: Sequence[str] | None,
        timeout: float,
        wait: float,
        throttle: Throttle | None,
        is_trusted: bool,
        mode: str,
        ref: str,
        registry: Registry,
    ) -> None:
        self.name = name
        self.ref = ref
        self.is_trusted = is_trusted
        self._throttle = throttle
        self._target = target
        self._only = only
        """The names of the tools to register; None: all."""
        self._timeout = timeout
        """The seconds that a call may take."""
        self._wait = wait
        """The seconds that connecting may take."""
        self._mode = mode
        self.registry = registry
        self._state: State = "closed"
        self._session: Session | None = None
        """The last session, which may have ended; None: there was none, or it could not begin."""
        self._masked = Masked()
        self._target_digest: str | None = None
        """The digest of the target at the last start."""
        self._listed: dict[str, Listed] = {}
        """The tools of the last list, by their names at the server."""
        self._problems = {warning.message: warning for warning in target.warnings(self._who)}
        self._stderr = deque[str](maxlen=STDERR_PIECES)
        self._links = set[str]()
        """The addresses of resources that results have linked to."""
        self._reads_links = False
        """Whether the tool `READER` is among the tools."""
        self._log = deque[str](maxlen=LOG_LINES)
        self._failures = 0
        """The failed starts in a row."""
        self._rests_until = 0.0
        """The end of the rest, on the monotonic clock; 0: no rest."""
        self._lock = asyncio.Lock()
        """Held while a session is opened, so that calls at the same time open only one."""
        self.was_closed = False
        """Whether a person has closed the server: no call starts it again."""
        self.protocol = ""
        """The version of the protocol that both sides speak."""
        self.instructions = ""
        """The server's text about its use. It is foreign text, so no model gets it unasked."""

    def __repr__(self) -> str:
        return f"<MCP server {self.name}: {self.state}, {len(self._listed)} tools>"

    # --- what a person reads ---

    @property
    def state(self) -> State:
        """``open``, ``opening``, ``closed`` or ``failed``. The next call opens a server that has
        ended by itself."""
        return self._state

    @property
    def target(self) -> str:
        """The command or the address, without values from the environment."""
        return self._target.text

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the server's tools on the registry."""
        return tuple(listed.registered for listed in self._listed.values())

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Warnings and notes about the server: tools that were left out, and output of the server
        that is no message of the protocol."""
        return tuple(self._problems.values())

    @property
    def log(self) -> str:
        """The last lines that the server logged or wrote to stderr."""
        text = "".join(self._stderr)
        stderr = clean(text, len(text), self._masked)[-LONGEST_STDERR:]
        return "\n".join(filter(None, (stderr.strip(), *self._log)))

    def close(self) -> None:
        """End the server's process or connection, and remove its tools from the registry."""
        HomeLoop.current().wait(self.end())

    def restart(self) -> None:
        """End the server and start it again. Raises DefinitionError ``mcp.unreachable``."""
        home = HomeLoop.current()
        home.wait(self._end_session())
        self._failures = 0
        self._rests_until = 0.0
        self.was_closed = False
        home.wait(self.open())

    # --- its life, on the home loop ---

    async def open(self) -> Session:
        """The open session; a new one if there is none. Raises DefinitionError."""
        async with self._lock:
            if self._session is not None and self._session.is_open:
                return self._session
            if self.was_closed:
                raise self._unreachable(*self._closed)
            if (rest := self._rests_until - time.monotonic()) > 0:
                message = f"{self._who} failed {FAILURES} times: not started for {rest:.0f} s"
                raise self._unreachable(message, f"start it now: %mcp {self.name} --restart")
            return await self._open()

    async def end(self) -> None:
        """Close the server for good: no call starts it again."""
        self.was_closed = True
        if self._listed:
            self.registry.tools.left[f"{self.name}__"] = self._closed
        for listed in self._listed.values():
            self.registry.tools.remove(listed.registered)
        self._listed = {}
        await self._end_session()

    @property
    def _closed(self) -> Gone:
        hint = f"connect it again: %mcp connect {self.name} {self._target.line}"
        return Gone(f"{self._who} was closed", hint)

    async def _end_session(self) -> None:
        if self._session is not None and not await self._session.close():
            self._note_noise(f"it did not end within {CLOSING:g} s")
        self._state = "closed"

    async def _open(self) -> Session:
        """Start a session; after `FAILURES` failed starts in a row, raise for `REST` seconds."""
        self._state = "opening"
        prepared = self._target.prepare(self._who, self._stderr.append)
        self._masked = prepared.masked
        self._target_digest = prepared.digest
        session = Session(self.name, prepared.opens, self._mode, self._masked)
        self._session = session
        session.on_listing = self._take
        session.on_log = self._log.append
        session.on_noise = self._note_noise
        session.on_end = lambda: self._ended(session)
        failure: BaseException
        try:
            await session.open(self._wait)
        except asyncio.CancelledError:
            self._state = "closed"
            raise
        except BaseException as error:
            failure = error
        else:
            self._state = "open"
            self._failures = 0
            self.protocol = session.protocol
            self.instructions = session.instructions
            self._register(session.version)
            return session
        self._session = None
        self._state = "failed"
        self._failures += 1
        if self._failures >= FAILURES:
            self._rests_until = time.monotonic() + REST
        raise failure if isinstance(failure, AgfError) else self._failed(failure, session)

    def _ended(self, session: Session) -> None:
        if self._session is session:
            self._state = "closed"

    def _failed(self, error: BaseException, session: Session) -> DefinitionError:
        """The error of a start that failed, with the reason and what the server wrote."""
        if isinstance(error, FileNotFoundError) and not session.why:
            why = f"there is no program {self._target.text.split(' ')[0]!r}"
        elif isinstance(error, TimeoutError):
            why = f"it does not answer within {self._wait:g} s"
        elif isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            why = session.why or "it ended before it answered"
        else:
            why = session.why or describe(error, self._masked)
        last = self.log.splitlines()[-5:]
        hint = "it wrote: " + " | ".join(last) if last else None
        if isinstance(error, TimeoutError) and not last:
            hint = f"a first start may download: wait={6 * self._wait:g}, or --wait SECONDS"
        return self._unreachable(f"{self._who} cannot be reached: {self._masked(why)}", hint)

    def _unreachable(self, message: str, hint: str | None) -> DefinitionError:
        return DefinitionError(Diagnostic("mcp.unreachable", message, hint=hint))

    # --- its tools ---

    def _take(self, tools: list[Any], more: bool) -> None:
        """Take a list of tools that was read. ``more``: whether the server has more tools."""
        own_names = {listed.registered for listed in self._listed.values()}
        usable, notes = usable_tools(
            self.name,
            tools,
            self._only,
            lambda name: name in self.registry.tools and name not in own_names,
            self._masked,
        )
        if more:
            message = f"{self._who} lists more than {MOST_TOOLS} tools: the others are left out"
            notes.append(left_out(message))
        for note in notes:
            self._note(note)
        fresh = {listed.name: listed for listed in usable}
        reader = reader_of_links(self.name)
        self._reads_links = (
            self._session is not None
            and self._session.has_resources
            and reader.name not in fresh
            and (self._only is None or reader.name in self._only)
            and (reader.registered in own_names or reader.registered not in self.registry.tools)
        )
        if self._reads_links:
            fresh[reader.name] = reader
        for name, older in self._listed.items():
            if name not in fresh:
                self.registry.tools.remove(older.registered)
            elif fresh[name].fingerprint != older.fingerprint:
                message = f"{self._who} has changed its tool {older.registered!r}"
                self._note(Diagnostic("mcp.tool-changed", message, severity="note"))
        self._listed = fresh
        # The first list is read before the session is open: then `_open` registers the tools.
        if self._session is not None and self._session.is_open:
            self._register(self._session.version)

    def _register(self, version: str) -> None:
        owner = Owner(
            self.name,
            self.ref,
            version,
            self._target_digest,
            self._timeout,
            self._throttle,
            self.is_trusted,
        )
        self.registry.tools.left.pop(f"{self.name}__", None)
        for listed in self._listed.values():
            self.registry.tools.add(make_tool(listed, owner, self.call))

    def _note(self, note: Diagnostic) -> None:
        if len(self._problems) < MOST_NOTES:
            self._problems.setdefault(note.message, note)

    def _note_noise(self, text: str) -> None:
        message = f"{self._who}: {text}"
        self._note(Diagnostic("mcp.noise", message, severity="note"))

    # --- calls, from any loop ---

    async def call(self, name: str, arguments: dict[str, Value], context: ToolContext) -> Value:
        """The value of a call. Raises StepError."""
        return await HomeLoop.current().cross(self._call(name, arguments, context))

    async def _call(self, name: str, arguments: dict[str, Value], context: ToolContext) -> Value:
        """`call` on the home loop. The links in the value are stored, so that they may be read."""
        if self._reads_links and name == READER:
            return await self._read_link(str(arguments["uri"]))
        session = await self._opened()
        call = Call(context, self._masked)
        try:
            result = await session.call(name, arguments, call)
        except NotTaken:
            if session.is_open:
                raise
            session = await self._opened()  # the server was restarted, and knows only new sessions
            result = await session.call(name, arguments, call)
        if result.is_error:
            text = clean(text_of(result), LONGEST_ERROR, self._masked)
            message = f"{self.name}__{name} failed: {text}"
            raise StepError(Diagnostic("mcp.tool-failed", message))
        listed = self._listed.get(name)
        gives = listed.gives if listed is not None else None
        if gives is not None:
            if result.structured_content is None:
                raise session.unusable("it has no structured content, which its schema promises")
            if violations := judge(gives)(result.structured_content):
                raise session.unusable(
                    f"it is not what its schema says: {describe_all(violations)}"
                )
        value = value_of(result, is_wrapped(gives))
        short = (uri for uri in links(value) if len(uri) <= LONGEST_LINK)
        self._links.update(islice(short, MOST_LINKS - len(self._links)))
        return value

    async def _read_link(self, uri: str) -> Value:
        """The contents of a resource to which a result of this server has linked. No other resource
        is read, because a model must not read everything that the server has."""
        if uri not in self._links:
            message = f"no result of MCP server {self.name!r} has linked to {uri!r:.200}"
            hint = "call the tool whose result has the link first, in this process"
            raise StepError(Diagnostic("mcp.not-linked", message, hint=hint))
        session = await self._opened()
        resource = await session.read_resource(uri)
        return contents(resource.contents)

    async def _opened(self) -> Session:
        """The open session for the call of a step. Raises StepError in place of DefinitionError."""
        failure: DefinitionError
        try:
            return await self.open()
        except DefinitionError as error:
            failure = error
        raise StepError(*failure.diagnostics)

    @property
    def _who(self) -> str:
        return f"MCP server {self.name!r}"
