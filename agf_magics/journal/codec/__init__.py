"""Values as bytes and texts, and back."""
