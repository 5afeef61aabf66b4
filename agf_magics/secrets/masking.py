"""The one rule for secrets: before anything is written down or shown, it is searched for the values that secret
arguments received, in every form they take (`secret_forms`).

What is shown is masked. What would be stored and holds a secret is not stored, because a run that is resumed must not
go on with a mask: its step runs again. The same holds for what cannot be searched: an opaque value of a call that
received a secret, and everything that follows a secret which is too short to be searched for.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..catalog import MASK, Tool
from ..flow.values import ATOMS, Value
from ..progress import events as ev
from ..serialization.codec import EncodedValue, encode, encode_value, preview, to_show
from ..text.diagnostics import AgfError, Diagnostic
from .forms import SHORTEST, Forms, Parts, forms_of, is_readable, parts_of

ALONE = 8
"""Characters below which a secret that is a word or a number is searched for as a whole word, outside of its call."""

MOST = 1_000
"""Different secrets of a run, and texts that its steps returned, which are searched for."""

HELD = "it holds a secret"
UNREADABLE = "it cannot be searched for the secret that its call received"
SHORT = f"its call received a secret of fewer than {SHORTEST} characters, which cannot be searched for"
BLIND = "the run has a secret that cannot be searched for"
HIDDEN = f"the text of the error is not shown: a secret of fewer than {SHORTEST} characters cannot be found in it"

EDGE_BEFORE, EDGE_AFTER = r"(?:(?<![^\W_])|(?<=\\[nrtbf]))", r"(?![^\W_])"


class Received(NamedTuple):
    """What a call received of secrets."""

    any: bool = False
    short: bool = False
    """Whether one, or a member of one, cannot be searched for."""


NOTHING = Received()


class Preview(NamedTuple):
    """JSON to be shown."""

    text: str
    whole: bool
    """Whether it is all of the value."""
    masked: bool = False


class Secrets:
    """The secrets of one run. Written to on the engine's loop, read on any thread: what is known is replaced as a
    whole."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """Inputs and stores that feed secret arguments."""
        self.steps: frozenset[tuple[int, str]] = frozenset()
        """The steps that return them, by the identity of their flow and their id."""
        self.blind = False
        """Whether there is a secret that cannot be searched for: then no value is stored or shown."""
        self._forms = Forms()
        self._returned = Parts()
        self._unsearchable = False
        self._known = set[Parts]()

    # --- what is secret ---

    @property
    def active(self) -> bool:
        """Whether there is anything to search for."""
        return self.blind or bool(self._forms.texts or self._forms.raws)

    def learn(self, value: Value) -> Received:
        """``value`` is a secret."""
        parts = parts_of(value)
        if parts.found and parts not in self._known:
            self._known.add(parts)
            self._forms = self._forms.joined(forms_of(parts))
        unknown = parts.short or parts.opaque
        self._unsearchable = self._unsearchable or unknown
        self.blind = self.blind or (unknown and not parts.found) or len(self._known) > MOST
        return Received(parts.found or unknown, unknown)

    def receive(self, tool: Tool, given: Mapping[str, Value]) -> Received:
        """Learn what the secret arguments of a call receive."""
        found = [self.learn(given.get(name)) for name in tool.secret]
        return Received(any(one.any for one in found), any(one.short for one in found))

    def returned(self, value: Value) -> None:
        """A step returned ``value``, which feeds a secret argument: whether or not that call is made, it is not shown
        at the end. Not before: its other parts occur in the outcomes of other calls, and those are stored."""
        if not self.too_many:
            found, known = parts_of(value), self._returned
            self._unsearchable = self._unsearchable or found.opaque
            self._returned = Parts(known.texts | found.texts, known.raws | found.raws, known.numbers | found.numbers)

    @property
    def too_many(self) -> bool:
        """Whether the end of the run can show no values."""
        return self.blind or self._unsearchable or sum(map(len, self._returned[:3])) > MOST

    def end(self) -> None:
        """What is stored from now on is how the run ended."""
        if not self.too_many and self._returned.found:
            self._forms = self._forms.joined(forms_of(self._returned))

    # --- what holds one ---

    def holds(self, value: Value, near: bool = True) -> bool:
        """Whether a secret is found in ``value``, or cannot be ruled out. ``near``: in any place; otherwise a short one
        only as a word of its own."""
        if not self.active:
            return False
        return self.blind or self.packed(encode_value(value, 1 << 30), value, Received(near)).form == "again"

    def holds_any(self, value: Value) -> bool:
        """Whether a secret that can be searched for is found in ``value``."""
        return self.active and not self.blind and self.holds(value)

    def _in_json(self, text: str, near: bool) -> bool:
        if not any(form in text for form in self._forms.jsons):
            return False
        return self._in_value(json.loads(text), near)

    def _in_value(self, value: Value, near: bool) -> bool:
        left = [value]
        while left:
            part = left.pop()
            if isinstance(part, dict):
                left += [*part.keys(), *part.values()]
            elif isinstance(part, list):
                left += part
            elif self._in_text(part, near) if isinstance(part, str) else self._is_number(part):
                return True
        return False

    def _in_text(self, text: str, near: bool) -> bool:
        found = [form for form in self._forms.texts if form in text]
        return bool(found) and (near or _pattern(found, _alone).search(text) is not None)

    def _is_number(self, value: Value) -> bool:
        return type(value) in (int, float) and abs(value) in self._forms.numbers

    # --- what is stored ---

    def pack(self, value: Value, most: int, received: Received = NOTHING, secret: bool = False) -> EncodedValue:
        """``value`` as it is stored, ``most`` bytes of it; ``received``: what the call that returned it received;
        ``secret``: it is one itself."""
        packed = encode_value(value, most)
        return packed if not self.active and not secret else self.packed(packed, value, received, secret)

    def packed(self, packed: EncodedValue, value: Value, received: Received, secret: bool = False) -> EncodedValue:
        why = self._why_not(packed, value, received, secret)
        if why is not None:
            return EncodedValue("again", None, encode(MASK), why)
        if packed.shown is not None:
            # Masked again: the preview writes out the fields of an object.
            shown, why = encode(self.shown(preview(self.shown(value)))), packed.why
            return packed._replace(shown=shown, why=self.text(why) if why is not None else None)
        return packed

    def _why_not(self, packed: EncodedValue, value: Value, received: Received, secret: bool) -> str | None:
        if secret:
            return "it is secret"
        if self.blind:
            return BLIND
        if received.short:
            return SHORT
        if isinstance(packed.data, str):
            return HELD if self._in_json(packed.data, received.any) else None
        if isinstance(packed.data, bytes):
            if any(form in packed.data for form in self._forms.raws):
                return HELD
            return UNREADABLE if received.any and not is_readable(value) else None
        return None

    # --- what is shown ---

    def to_show(self, value: Value, most: int) -> Preview:
        """``value`` as JSON to be shown."""
        text, whole = to_show(value, most)
        if not self.active:
            return Preview(text, whole)
        masked = self.each(value) if isinstance(value, dict) else self.shown(value)
        shown, complete = to_show(masked, most)
        if not complete:
            shown, _ = to_show(self.shown(preview(masked)), most)
        return Preview(shown, whole and shown == text, shown != text)

    def shown(self, value: Value) -> Value:
        """``value`` as it may be shown."""
        if not self.active:
            return value
        if self.blind:
            return value if value is None or isinstance(value, bool) else MASK
        return self._shown(value, 200)

    def each(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Arguments or stores as they may be shown, each under its name."""
        return {name: self.shown(value) for name, value in values.items()}

    def _shown(self, value: Value, room: int) -> Value:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in ATOMS:
            return MASK if self._is_number(value) else value
        if kind in (list, tuple) and room:
            return kind(self._shown(one, room - 1) for one in value)
        if kind is dict and room:
            return {self._shown(key, room - 1): self._shown(one, room - 1) for key, one in value.items()}
        return f"⟨{kind.__name__}⟩" if self._in_opaque(value) else value

    def _in_opaque(self, value: Value) -> bool:
        """Whether an opaque value, or what it says of itself, holds a secret."""
        try:
            said = f"{value!r} {value}"
        except Exception:  # somebody's class
            return True
        packed = encode_value(value, 1 << 30)
        data = packed.data if isinstance(packed.data, bytes) else b""
        return self._in_text(said, True) or any(form in data for form in self._forms.raws)

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        found = [form for form in self._forms.texts if form in text]
        if not found:
            return text
        if not self._forms.slices.isdisjoint(found):
            return MASK
        return _pattern(found).sub(lambda _: MASK, text)

    def error(self, error: BaseException) -> None:
        """Mask what an error of ours says, and forget its cause where that holds a secret."""
        if not self.active or not isinstance(error, AgfError):
            return
        found = tuple(map(self.diagnostic, error.diagnostics))
        if found != error.diagnostics:
            error.diagnostics = found
            error.args = found
        cause = error.__cause__
        if cause is not None and self.raised(cause):
            error.__cause__ = None

    def event(self, event: ev.Event) -> ev.Event:
        """An event as a listener is told of it."""
        match event:
            case ev.StepFinished():
                return event._replace(value=self.shown(event.value))
            case ev.QuestionAnswered():
                return event._replace(answer=self.shown(event.answer))
            case ev.RunEnded():
                return event._replace(stores=self.each(event.stores))
            case ev.Warned():
                return event._replace(diagnostic=self.diagnostic(event.diagnostic))
        return event

    def raised(self, error: BaseException) -> bool:
        """Whether an exception of user code, or one around it, holds a secret."""
        if not self.active or self.blind:
            return self.blind
        said = ["".join(traceback.format_exception(error)), *_arguments(error)]
        return any(self._in_text(text, True) for text in said)

    def diagnostic(self, found: Diagnostic) -> Diagnostic:
        message, hint = self.text(found.message), self.text(found.hint) if found.hint else found.hint
        if (message, hint) == (found.message, found.hint):
            return found
        return Diagnostic(found.code, message, found.span, hint, found.severity, found.related)


def hide(value: Value, names: Collection[str]) -> Value:
    """Arguments as they may be shown and stored: without those of these names."""
    return {name: MASK if name in names else one for name, one in value.items()} if isinstance(value, dict) else value


def _arguments(error: BaseException) -> list[str]:
    """What an exception and those around it were made of, as far as it says."""
    found, left, seen = list[str](), [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        try:
            found.append(repr(one.args))
        except Exception:  # somebody's class
            found.append("")
        left += [each for each in (one.__cause__, one.__context__) if each is not None]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
    return found


def _pattern(found: Collection[str], written: Callable[[str], str] = re.escape) -> re.Pattern[str]:
    """Matches these forms, the longest first."""
    return re.compile("|".join(written(form) for form in sorted(found, key=len, reverse=True)))


def _alone(form: str) -> str:
    """Matches a form, one that is short as a word of its own."""
    written = re.escape(form)
    if len(form) >= ALONE and not form.isdigit():
        return written
    before = EDGE_BEFORE if form[0].isalnum() else ""
    return f"{before}{written}{EDGE_AFTER if form[-1].isalnum() else ''}"
