"""The errors of the protocol that no server sends: a transport makes them for an answer that is none.

They say whether the server took the call. A call that it took may have had its effect.
"""

from __future__ import annotations

from .stdio import UNREADABLE

NOT_TAKEN = -33_001
"""The code of the error for a call that the server did not take."""
SESSION_OVER = -33_003
"""The same, where the server takes no further call of this session."""
NOT_ANSWERED = -33_002
"""The code of the error for a call of which nobody knows whether the server took it."""

NOT_READ = (UNREADABLE, "Failed to parse", "Unexpected content type")
NO_ANSWER = ("server answered a request with 202", "SSE stream")
"""How the messages begin of an answer that cannot be read, and of one that never comes. The SDK makes
them, with codes that servers use, too."""
