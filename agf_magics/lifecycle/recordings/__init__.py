"""Records the calls of runs in a file, and replays them in other runs."""
