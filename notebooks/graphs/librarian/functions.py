"""The tools of a library."""

SHELVES = {"Emma": "A3", "Dracula": "B1"}


def find_book(title: str) -> dict:
    """The shelf of a book."""
    return {"title": title, "shelf": SHELVES.get(title, "none")}
