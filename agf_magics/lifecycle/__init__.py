"""The life of a run: started, awaited, recorded, resumed, reused, listed and deleted."""
