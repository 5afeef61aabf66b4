"""Flow to events and a value. Knows no language and no IPython; asyncio, threads and sqlite3 live here and nowhere
else.
"""
