"""The event loop of the engine, the thread that waits for a run, interrupts and time limits."""
