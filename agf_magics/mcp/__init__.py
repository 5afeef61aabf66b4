"""MCP both ways: the tools of a server in flows, and flows as the tools of a server."""
