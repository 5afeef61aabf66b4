"""The common representation of all languages: checks, pictures, progress and runs read it."""
