"""agf_magics (the public face comes when its parts have landed)."""
