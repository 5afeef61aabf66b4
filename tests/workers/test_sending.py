"""What is sent to workers is collected while other threads of the kernel work."""

import gc
import itertools
import sys
import types

from agf_magics.workers.sending import own_modules


def test_the_modules_are_listed_while_another_one_is_imported() -> None:
    """The garbage collector stands for the other thread: it runs wherever an object is made."""
    added = itertools.count()

    def add(phase: str, info: dict[str, int]) -> None:
        name = f"added_{next(added)}"
        sys.modules[name] = types.ModuleType(name)

    before = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        own_modules()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(add)
    count = next(added)
    for number in range(count):
        sys.modules.pop(f"added_{number}", None)
    assert count > 0
