"""Values as they are stored: JSON, and signed pickles of opaque values."""
