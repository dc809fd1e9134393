"""MCP server (Model Context Protocol): tools for other programs' models, over HTTP at `/mcp` and over stdio."""
