"""The loop, the thread that waits, interrupts and time limits of a run."""
