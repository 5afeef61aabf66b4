"""What would run again, and what was at each moment, found without running anything."""
