"""An MCP server whose tools are flows, and tools that help an agent to write flows."""
