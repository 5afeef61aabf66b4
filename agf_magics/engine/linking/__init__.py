"""Names are looked up, and what the registry shows to be wrong is found, before the first step."""
