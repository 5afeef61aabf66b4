"""Where user code runs: threads, the event loop, interrupts, time limits and rights."""
