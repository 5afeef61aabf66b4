"""`Secrets`, which searches everything that is stored or shown for secret values, and masks them.

Shown values are masked. A value that contains a secret is not stored: a resumed run must not
continue with a mask, so it makes the call again. The same holds for values that cannot be searched:
an opaque value of a call that received a secret, and all values after a secret that is too short to
be searched for. The module `forms` lists the searched forms.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, AnyStr, NamedTuple

from ...catalog import MASK, Tool
from ...flow.progress import events as ev
from ...text.diagnostics import AgfError, Diagnostic
from ...text.length import ATOMS, DEEPEST, can_write
from ...text.raised import (
    args_of,
    cause_of,
    context_of,
    format_trace,
    is_a,
    members_of,
    notes_of,
    text_of,
)
from ...values.unread import Unread
from ...values.value import Value
from ..codec.encoding import EncodedValue, encode_value, preview, to_show
from ..codec.json_texts import encode
from .defaults import secrets_of
from .forms import SHORTEST, Forms, SecretParts, forms_of, is_readable, parts_of

ALONE = 8
"""The length below which a secret counts only as a whole word, except in its own call."""

MOST_SECRETS = 1_000
"""The largest number of secrets of a run, and of texts from its steps, that are searched for."""

SEARCHED_AS_TEXT = 10_000_000
"""The largest number of characters of a value that is written as one text to search it. A larger one is
searched part by part, because a shared part would be written in each of its places."""

HELD_BACK = f"⟨{MASK}⟩"
"""What is shown of a value that is not stored because of a secret, if it is not a secret text."""

HAS_SECRET = "it contains a secret"
UNSEARCHABLE = "it cannot be searched for the secret that its call received"
TOO_SHORT = (
    f"its call received a secret of fewer than {SHORTEST} characters, which cannot be searched for"
)
BLIND = "the run has a secret that cannot be searched for"
HIDDEN = (
    f"the text of the error is not shown: a secret of fewer than {SHORTEST} characters "
    f"cannot be found in it"
)

# The edges of a separate word. An escape such as \n in JSON ends the word before it.
EDGE_BEFORE, EDGE_AFTER = r"(?:(?<![^\W_])|(?<=\\[nrtbf]))", r"(?![^\W_])"


class Received(NamedTuple):
    """Whether a call received secrets."""

    any: bool = False
    """Whether the call received a secret, or a value that cannot be searched for."""
    short: bool = False
    """Whether a secret, or a part of one, cannot be searched for."""


NOTHING = Received()

LEAST = 8
"""The smallest number of characters of a secret in the environment that is searched for."""
_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Whether the name of a variable or a parameter says that its value is a secret.

    >>> names_a_secret("OPENAI_API_KEY"), names_a_secret("token"), names_a_secret("HOME")
    (True, True, False)
    """
    return _NAMED.search(name) is not None


def surrounding() -> SecretParts:
    """The secrets in the environment, which tools read and exceptions may show (decision D42)."""
    texts = (text for name, text in os.environ.items() if names_a_secret(name))
    return SecretParts(frozenset(text for text in texts if len(text) >= LEAST))


NO_PARTS = SecretParts()


class Preview(NamedTuple):
    """The masked text of a value."""

    text: str
    is_whole: bool
    """Whether the text has the whole value as JSON."""
    is_masked: bool = False


class Secrets:
    """The secrets of one run. Only the engine's loop changes them; any thread may read them,
    because the forms are replaced as a whole."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The inputs and stores that feed secret arguments."""
        self.steps: frozenset[tuple[int, str]] = frozenset()
        """The steps whose values feed them, by the identity of their flow and their id."""
        self.keys: Mapping[tuple[int, str], frozenset[str]] = {}
        """The steps whose value is an object with keys, of which these feed secret arguments."""
        self.arguments: frozenset[tuple[str, str]] = frozenset()
        """The arguments of the run's own calls that feed them: the id of the step, and the name."""
        self.blind = False
        """Whether a secret cannot be searched for, so that no value is stored or shown."""
        self._learned = Forms()
        """The forms of secret arguments."""
        self._surrounding = _forms_of_all(surrounding())
        """The forms of secrets that any tool may read from the environment."""
        self._forms = self._surrounding
        """All forms together."""
        self._returned = NO_PARTS
        """The values that feed secret arguments, which only the end of the run masks."""
        self._unsearchable = False
        """Whether a part of a secret cannot be searched for."""
        self._known = set[SecretParts]()
        """The secret arguments so far."""

    # --- collecting ---

    @property
    def active(self) -> bool:
        """Whether a secret argument is known. If so, values are searched before they are stored,
        and elements stay in the kernel. Secrets of the environment have no such cost."""
        return self.blind or bool(self._learned.texts or self._learned.raws)

    def surround(self, texts: Iterable[str]) -> None:
        """Mask ``texts``, too: the arguments that a `functools.partial` passes to a tool (decision
        D42)."""
        searched = frozenset(text for text in texts if len(text) >= LEAST)
        if not searched:  # nearly always
            return
        more = forms_of(SecretParts(searched))
        self._surrounding = self._surrounding.joined(more)
        self._forms = self._forms.joined(more)

    def _learn(self, forms: Forms) -> None:
        self._learned = self._learned.joined(forms)
        self._forms = self._forms.joined(forms)

    def learn(self, value: Value) -> Received:
        """Add a secret argument, to be searched for from now on."""
        # A replayed run has masks, and placeholders, in place of its secrets.
        if type(value) is str and (value == MASK or value.startswith(f"{MASK} #")):
            return NOTHING
        parts = parts_of(value)
        if parts.has_searchable and parts not in self._known:
            self._known.add(parts)
            self._learn(forms_of(parts))
        unknown = parts.short or parts.opaque
        self._unsearchable |= unknown
        self.blind |= (unknown and not parts.has_searchable) or len(self._known) > MOST_SECRETS
        return Received(parts.has_searchable or unknown, unknown)

    def receive(self, tool: Tool, arguments: Mapping[str, Value]) -> Received:
        """Add the secrets among the arguments of a call of ``tool``, also those that are defaults."""
        # Each field of the result is True if it is True for one of the secrets.
        return Received(*map(any, zip(*map(self.learn, secrets_of(tool, arguments)), strict=True)))

    def returned(self, value: Value) -> None:
        """Add a value that feeds a secret argument. It is masked in the end of the run, even if the
        call with that argument is not made. It is not masked before, because its parts occur in the
        outcomes of other calls, which are stored."""
        if not self.too_many:
            parts, before = parts_of(value), self._returned
            self._unsearchable |= parts.opaque
            self._returned = SecretParts(
                before.texts | parts.texts, before.raws | parts.raws, before.numbers | parts.numbers
            )

    @property
    def too_many(self) -> bool:
        """Whether the end of the run can show no values."""
        return self.blind or self._unsearchable or sum(map(len, self._returned[:3])) > MOST_SECRETS

    def end(self) -> None:
        """Note that from now on the end of the run is stored."""
        if self._returned != NO_PARTS and not self.too_many:
            self._learn(forms_of(self._returned))

    # --- searching ---

    def surrounds(self, stored: str | bytes | None) -> bool:
        """Whether a stored value contains a secret of the surroundings."""
        forms = self._surrounding
        if isinstance(stored, str):
            return any(map(stored.__contains__, forms.jsons))
        return stored is not None and any(map(stored.__contains__, forms.raws))

    def has_secret(self, value: Value, near: bool = True) -> bool:
        """Whether ``value`` contains a secret or cannot be searched. ``near``: whether a short
        secret counts anywhere, not only as a whole word; default True."""
        if not self.active:
            return False
        packed = encode_value(value, SEARCHED_AS_TEXT)
        if packed.is_large and not packed.is_json:
            packed = encode_value(value, 1 << 30)  # a pickle can only be searched as a whole
        if packed.form == "again" and not (packed.is_large and packed.is_json):
            return True
        return self._why_not(packed, value, Received(near), secret=False) is not None

    def has_searchable_secret(self, value: Value) -> bool:
        """Whether ``value`` contains a secret that can be searched for."""
        return not self.blind and self.has_secret(value)

    def _in_json(self, text: str, near: bool) -> bool:
        """Whether the JSON ``text`` contains a secret. ``near``, here and below: see `has_secret`."""
        # The whole text is searched first, because nearly no text has a secret and parsing takes
        # longer.
        if not _inside(text, self._forms.jsons):
            return False
        return self._in_value(json.loads(text), near)

    def _in_value(self, value: Value, near: bool) -> bool:
        # A stack instead of recursion, because a user's value may nest deeper than Python's stack.
        waiting, seen = [value], set[int]()
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict | list) and id(part) in seen:
                continue  # a shared part, which may stand in a million places
            if isinstance(part, dict):
                waiting += [*part.keys(), *part.values()]
                seen.add(id(part))
            elif isinstance(part, list):
                waiting += part
                seen.add(id(part))
            elif self._in_text(part, near) if isinstance(part, str) else self._is_number(part):
                return True
        return False

    def _in_text(self, text: str, near: bool) -> bool:
        forms = _inside(text, self._forms.texts)
        return bool(forms) and (near or _pattern(forms, _alone).search(text) is not None)

    def _is_number(self, value: Value) -> bool:
        return type(value) in (int, float) and abs(value) in self._forms.numbers

    @property
    def searched(self) -> Forms:
        """The forms that must not be in the parts of a large value."""
        return self._forms

    # --- storing ---

    def pack(
        self, value: Value, most: int, received: Received = NOTHING, secret: bool = False
    ) -> EncodedValue:
        """``value`` as it is stored, in at most ``most`` bytes. ``received``: the secrets of the
        call that returned it. ``secret``: it is a secret itself."""
        packed = encode_value(value, most)
        # Of a large value, only the preview is searched here.
        is_clean = not (self.surrounds(packed.data) or self.surrounds(packed.shown))
        if is_clean and not self.active and not secret:
            return packed
        return self.packed(packed, value, received, secret)

    def packed(
        self, packed: EncodedValue, value: Value, received: Received, secret: bool = False
    ) -> EncodedValue:
        """``packed``, the encoded ``value``, as it may be stored: not at all if it contains a secret,
        else with a masked preview. ``received``, ``secret``: see `pack`."""
        why = self._why_not(packed, value, received, secret)
        if why is not None:
            # A mask may stand for a secret text in a recording, but for no other value.
            is_secret_text = secret and type(value) is str
            return EncodedValue("again", None, encode(MASK if is_secret_text else HELD_BACK), why)
        if packed.shown is not None:
            # Masked again, because the preview shows the fields of an object.
            shown, why = encode(self.shown(preview(self.shown(value)))), packed.why
            return packed._replace(shown=shown, why=self.text(why) if why is not None else None)
        return packed

    def _why_not(
        self, packed: EncodedValue, value: Value, received: Received, secret: bool
    ) -> str | None:
        """The reason why a value must not be stored; None: there is none. In the result of a call
        that received a secret (``received.any``), a short secret counts anywhere."""
        if secret:
            return "it is secret"
        if self.blind:
            return BLIND
        if received.short:
            return TOO_SHORT
        if packed.is_large and packed.is_json:
            return HAS_SECRET if self._in_value(value, received.any) else None
        if packed.is_large:
            return UNSEARCHABLE if received.any and not is_readable(value) else None
        if isinstance(packed.data, str):
            return HAS_SECRET if self._in_json(packed.data, received.any) else None
        if isinstance(packed.data, bytes):
            if _inside(packed.data, self._forms.raws):
                return HAS_SECRET
            return UNSEARCHABLE if received.any and not is_readable(value) else None
        return None

    # --- masking ---

    def to_show(self, value: Value, most: int, is_named: bool = True) -> Preview:
        """The masked text of ``value``. ``is_named``: whether the keys of a mapping are names,
        which are not masked; default True; False: they are data."""
        text, whole = to_show(value, most)
        if not self.active and not self.surrounds(text):
            return Preview(text, whole)
        masked = (
            self.shown_values(value) if is_named and isinstance(value, dict) else self.shown(value)
        )
        shown, complete = to_show(masked, most)
        if not complete:
            shown, _ = to_show(self.shown(preview(masked)), most)
        return Preview(shown, whole and shown == text, shown != text)

    def shown(self, value: Value) -> Value:
        """``value`` with masks in place of its secrets."""
        if not self._forms.texts and not self.active:
            return value
        # A blind run shows no value except None and booleans, which cannot be secret.
        if self.blind:
            return value if value is None or isinstance(value, bool) else MASK
        return self._shown(value, DEEPEST, {})

    def shown_values(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """``values`` with masks, but not in their names."""
        return {name: self.shown(value) for name, value in values.items()}

    def _shown(self, value: Value, room: int, visited: dict[int, Value]) -> Value:
        """``value`` with masks. A container is masked once, however many places it has (decision
        D170)."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in ATOMS:
            return MASK if self._is_number(value) else value
        if kind in (list, tuple, dict) and room:
            if id(value) not in visited:
                visited[id(value)] = self._masked_parts(value, room - 1, visited)
            return visited[id(value)]
        if kind is Unread:  # the preview was masked when it was stored
            return value
        # A key in the environment is no reason to write a table out each time that it is shown.
        return f"⟨{kind.__name__}⟩" if self.active and self._in_opaque(value) else value

    def _masked_parts(self, value: Any, room: int, visited: dict[int, Value]) -> Value:
        if type(value) is dict:
            return {
                self._shown(key, room, visited): self._shown(part, room, visited)
                for key, part in value.items()
            }
        return type(value)([self._shown(part, room, visited) for part in value])

    def _in_opaque(self, value: Value) -> bool:
        """Whether an opaque value, its repr or its text contains a secret."""
        # A user's class may run code here. A value that cannot be searched counts as a secret.
        with suppress(Exception):
            if not can_write(value):
                return True
            texts, packed = f"{value!r} {value}", encode_value(value, 1 << 30)
            data = packed.data if isinstance(packed.data, bytes) else b""
            return self._in_text(texts, True) or bool(_inside(data, self._forms.raws))
        return True

    def text(self, text: str) -> str:
        """``text`` with masks in place of its secrets."""
        forms = _inside(text, self._forms.texts)
        if not forms:
            return text
        # Only a part of a long secret is searched for, so its end is unknown.
        if not self._forms.slices.isdisjoint(forms):
            return MASK
        return _pattern(forms).sub(lambda _: MASK, text)

    def maskable(self, text: str) -> int:
        """The number of characters at the beginning of ``text`` that can be masked and shown while
        more text arrives: no secret begins in them and ends after them."""
        # Secrets of the environment do not count: nearly every text ends like the beginning of one,
        # and each reply would be delayed.
        forms = self._learned.texts
        if not forms:
            return len(text)
        length = max(0, len(text) + 1 - max(map(len, forms)))
        inside = _inside(text, forms)
        for match in _pattern(inside).finditer(text) if inside else ():
            if match.start() < length < match.end():
                return match.start()
        return length

    def error(self, error: BaseException) -> None:
        """Mask an error of this package, and remove its cause if that contains a secret."""
        if not is_a(error, AgfError):
            return
        masked = tuple(map(self.diagnostic, error.diagnostics))
        if masked != error.diagnostics:
            # Changed in place, because code that has caught the error may show it later.
            error.diagnostics = masked
            error.args = masked
        cause = error.__cause__
        if cause is not None and self.raised(cause):
            error.__cause__ = None

    def event(self, event: ev.Event) -> ev.Event:
        """``event`` with masks in its values, for listeners."""
        match event:
            case ev.StepFinished():
                return event._replace(value=self.shown(event.value))
            case ev.FanOutStarted():
                return event._replace(over=self.shown(event.over))
            case ev.CallStarted():
                return event._replace(arguments=self.shown_values(event.arguments))
            case ev.QuestionAnswered():
                return event._replace(answer=self.shown(event.answer))
            case ev.RunEnded():
                return event._replace(stores=self.shown_values(event.stores))
            case ev.Warned():
                return event._replace(diagnostic=self.diagnostic(event.diagnostic))
        return event

    def raised(self, error: BaseException) -> bool:
        """Whether an exception of user code, or one in its chain, contains a secret."""
        if self.blind or not self._forms.texts:
            return self.blind
        texts = _texts_of_chain(error)
        if texts is None:
            return True
        return any(self._in_text(text, True) for text in (format_trace(error), *texts))

    def diagnostic(self, shown: Diagnostic) -> Diagnostic:
        hint = self.text(shown.hint) if shown.hint else shown.hint
        return replace(shown, message=self.text(shown.message), hint=hint)


_forms_of_all = lru_cache(maxsize=8)(forms_of)
"""The cached forms: the environment is the same for most runs."""


def _texts_of_chain(error: BaseException) -> list[str] | None:
    """The texts, notes and arguments of an exception and of those in its chain; None if one of them
    is too large to be written, and so to be searched."""
    texts = list[str]()
    waiting = [error]
    seen = set[int]()
    while waiting:
        raised = waiting.pop()
        if id(raised) in seen:
            continue
        seen.add(id(raised))
        if not can_write(raised):
            return None
        texts += (text_of(raised), *notes_of(raised))
        with suppress(BaseException):  # a class of a user
            texts.append(repr(args_of(raised)))
        waiting += [
            linked for linked in (cause_of(raised), context_of(raised)) if linked is not None
        ]
        waiting += members_of(raised)
    return texts


def _inside(data: AnyStr, forms: Iterable[AnyStr]) -> list[AnyStr]:
    """Those of ``forms`` that ``data`` contains."""
    return list(filter(data.__contains__, forms))  # mostly empty, so the search is left to C


def _pattern(forms: Collection[str], written: Callable[[str], str] = re.escape) -> re.Pattern[str]:
    """The pattern that matches these forms, longest form first."""
    return re.compile("|".join(written(form) for form in sorted(forms, key=len, reverse=True)))


def _alone(form: str) -> str:
    """The pattern of a form. A short form must be a separate word."""
    written = re.escape(form)
    if len(form) >= ALONE and not form.isdigit():
        return written
    before = EDGE_BEFORE if form[0].isalnum() else ""
    return f"{before}{written}{EDGE_AFTER if form[-1].isalnum() else ''}"
