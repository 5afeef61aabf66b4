"""Tab, Shift-Tab and problems while a person writes."""
