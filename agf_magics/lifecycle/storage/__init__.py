"""What the journal has of a run besides its calls."""
