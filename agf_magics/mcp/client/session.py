"""`Session`, one connection to a server, from its handshake to its end; used on the home loop only.

One task enters and leaves the SDK's client, because the client's cancel scopes must be left by the
task that entered them. The session ends when the transport ends. The transport itself says so,
because the SDK's client has no public sign of its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context
from typing import Any

from mcp import Client, MCPError
from mcp_types import ElicitResult, Implementation, ServerNotification, ToolListChangedNotification

from ...catalog.tools.outcome_unknown import OutcomeUnknown
from ...text.diagnostics import Diagnostic, StepError
from ...text.whole_text import with_whole_texts
from ...version import __version__
from .elicitation import Call, Elicitation
from .foreign_text import LONGEST_ERROR, Masked, clean, describe
from .listing import read_pages
from .sdk_records import told_to
from .stdio import UNREADABLE
from .transport_errors import NO_ANSWER, NOT_ANSWERED, NOT_READ, NOT_TAKEN, SESSION_OVER

MODES = {"auto": "auto", "old": "legacy"}
"""The SDK's mode for each choice of protocols; ``old``: only protocols before 2026."""

CLOSING = 8.0
"""Seconds that the end of a session may take."""

PAUSE = 0.1
"""Seconds between two listings that a server asks for."""

Ended = Callable[[str], None]
Opens = Callable[[Ended], AbstractAsyncContextManager[Any]]
"""Makes the transport, which calls the argument when the connection ends."""


class Gone(StepError, OutcomeUnknown):
    """The server ended during a call, or did not answer it (decision D216)."""


class NotTaken(StepError):
    """The server did not take the call, which therefore had no effect."""


class Session:
    """One connection. The ``on_…`` functions are set by the server that owns the session."""

    def __init__(self, name: str, opens: Opens, mode: str, masked: Masked) -> None:
        self.name = name
        self._mode = mode
        self._masked = masked
        self._opens = opens
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the list of tools was read; an exception: the session could not be opened."""
        self._over = asyncio.Event()
        """Set when the session ends, for whatever reason."""
        self._was_cancelled = False
        """Whether the task was cancelled before the session was open."""
        self.why = ""
        """The reason why this package ended the connection; empty if the server ended it."""
        self._is_stale = asyncio.Event()
        """Set when the server says that its list of tools has changed."""
        self.elicitation = Elicitation(masked)
        self.on_listing: Callable[[list[Any], bool], None] = lambda tools, more: None
        self.has_resources = False
        """Whether the server says that it has resources."""
        self.on_log: Callable[[str], None] = lambda text: None
        self.on_noise: Callable[[str], None] = lambda text: None
        self.on_end: Callable[[], None] = lambda: None
        """Called at the end of a session that was open."""

    # --- its life ---

    async def open(self, seconds: float) -> None:
        """Connect, and read the list of tools. Raises whatever stops it."""
        # In an empty context: the session outlives the call that opens it, and its questions must not
        # pause the time limits of that run.
        self._task = asyncio.create_task(self._live(seconds), context=Context())
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> bool:
        """End the session. Returns whether it has ended within `CLOSING` seconds; if not, it is
        cancelled."""
        self._over.set()
        if self._task is None:
            return True
        # Once: who interrupts `connect` closes the session twice, and the second cancellation would cut
        # off the seconds in which the server may end by itself.
        if not self._opened.done() and not self._was_cancelled:
            self._was_cancelled = True
            self._task.cancel()
        _, still_open = await asyncio.wait({self._task}, timeout=CLOSING)
        if still_open:
            self._task.cancel()
        return not still_open

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._over.is_set()

    @property
    def protocol(self) -> str:
        return self._client.protocol_version if self._client is not None else ""

    @property
    def version(self) -> str:
        """The version that the server says it has."""
        info = self._client.server_info if self._client is not None else None
        return clean(info.version, 80, self._masked) if info is not None else ""

    @property
    def instructions(self) -> str:
        text = self._client.instructions if self._client is not None else None
        return clean(text or "", LONGEST_ERROR, self._masked)

    async def _live(self, seconds: float) -> None:
        """Enter the SDK's client, serve its messages until the connection is over, and leave it."""
        with told_to(self._log_text):
            await self._serve(seconds)

    async def _serve(self, seconds: float) -> None:
        failure: BaseException | None = None
        try:
            async with asyncio.timeout(seconds) as start:
                client = Client(
                    self._opens(self._end),
                    mode=self._mode,
                    message_handler=self._hear,
                    elicitation_callback=self._elicit,
                    logging_callback=self._log,
                    log_level="warning",
                    client_info=Implementation(name="agf-magics", version=__version__),
                )
                async with client:
                    await self._list(client)
                    start.reschedule(None)
                    self._client = client
                    self._opened.set_result(None)
                    async with asyncio.TaskGroup() as group:
                        watching = [
                            group.create_task(self._listen(client)),
                            group.create_task(self._list_again(client)),
                        ]
                        await self._over.wait()
                        for task in watching:
                            task.cancel()
        except BaseException as error:
            failure = error
        finally:
            self._over.set()
            self._client = None
        if not self._opened.done():
            self._opened.set_exception(failure or RuntimeError("it ended"))
            self._opened.exception()  # asyncio would complain if nobody waits for it any more
        else:
            self.on_end()

    def _end(self, why: str) -> None:
        """Note the end of the transport. The first reason stays."""
        self.why = self.why or why
        self._over.set()

    # --- the list of tools ---

    async def _list(self, client: Client) -> None:
        self.has_resources = client.server_capabilities.resources is not None
        tools, more = await read_pages(lambda cursor: client.list_tools(cursor=cursor))
        self.on_listing(tools, more)

    async def _list_again(self, client: Client) -> None:
        """Read the list again when the server says that it has changed, one listing at a time."""
        while True:
            await self._is_stale.wait()
            await asyncio.sleep(PAUSE)
            self._is_stale.clear()
            try:
                async with asyncio.timeout(10):
                    await self._list(client)
            except (MCPError, TimeoutError, ValueError) as error:
                self.on_noise(
                    f"its list of tools cannot be read again: {describe(error, self._masked)}"
                )

    async def _listen(self, client: Client) -> None:
        """Ask the server to report changes of its tools, as the protocols since 2026 require."""
        if client.protocol_version < "2026":
            return
        # If the server has no subscriptions, or ends one, the tools of the last list stay.
        with suppress(Exception):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._is_stale.set()

    # --- what the server says by itself ---

    async def _hear(self, message: Exception | ServerNotification) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._is_stale.set()
        elif isinstance(message, Exception):
            self.on_noise(clean(str(message), masked=self._masked))

    async def _log(self, params: Any) -> None:
        self._log_text(f"{params.level}: {params.data}")

    def _log_text(self, text: str) -> None:
        self.on_log(clean(text, masked=self._masked))

    async def _elicit(self, context: object, params: Any) -> ElicitResult:
        return await self.elicitation.answer(params, self.on_noise)

    # --- calls ---

    async def call(self, name: str, arguments: dict[str, Any], call: Call) -> Any:
        """The SDK's result of a call. Raises StepError."""
        assert self._client is not None
        client = self._client
        arguments = with_whole_texts(arguments)
        with self.elicitation.during(call):
            return await self._answer(
                lambda: client.call_tool(name, arguments, progress_callback=call.report)
            )

    async def read_resource(self, uri: str) -> Any:
        """The SDK's result of reading a resource. Raises StepError."""
        assert self._client is not None
        client = self._client
        return await self._answer(lambda: client.read_resource(uri))

    async def _answer(self, ask: Callable[[], Any]) -> Any:
        failure: StepError
        try:
            with told_to(self._log_text):
                return await ask()
        except (ValueError, RuntimeError) as error:
            failure = self.unusable(describe(error, self._masked))
        except MCPError as error:
            failure = self._failure_of(error)
        except Exception as error:
            failure = self._gone() if self._over.is_set() else self._refused(error)
        raise failure

    def _failure_of(self, error: MCPError) -> StepError:
        """The failure of a call for an error of the protocol, which the server or the SDK has made."""
        code, text = error.error.code, error.error.message
        if code == SESSION_OVER:
            self._end(text)
        if code in (NOT_TAKEN, SESSION_OVER):
            return NotTaken(*self._refused(error).diagnostics)
        if text.startswith(NOT_READ):
            return self.unusable(UNREADABLE)
        if code == NOT_ANSWERED or text.startswith(NO_ANSWER):
            return self._unknown(f"does not answer the call: {clean(text, masked=self._masked)}")
        return self._gone() if self._over.is_set() else self._refused(error)

    def _gone(self) -> StepError:
        why = f": {self._masked(self.why)}" if self.why else ""
        return self._unknown(
            f"ended during the call{why}", "; the next call starts the server again"
        )

    def _unknown(self, what: str, then: str = "") -> StepError:
        hint = f"whether the call had an effect is not known{then}"
        return Gone(Diagnostic("mcp.gone", f"MCP server {self.name!r} {what}", hint=hint))

    def _refused(self, error: Exception) -> StepError:
        text = (
            clean(str(error), LONGEST_ERROR, self._masked)
            if isinstance(error, MCPError)
            else describe(error, self._masked)
        )
        message = f"MCP server {self.name!r} refuses the call: {text}"
        return StepError(Diagnostic("mcp.refused", message))

    def unusable(self, why: str) -> StepError:
        message = f"the answer of MCP server {self.name!r} cannot be used: {self._masked(why)}"
        return StepError(Diagnostic("mcp.result", message))
