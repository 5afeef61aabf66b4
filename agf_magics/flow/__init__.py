"""The common representation of all languages: steps, frames, checks, sessions, progress."""
