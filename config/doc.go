// Package config reads the server lists that people already have and makes
// [messages.ServerSpec] values of them.
//
// Understood are the mcpServers object of Claude Desktop, Claude Code's
// .mcp.json and Cursor, and the servers object of VS Code (also below "mcp" in
// its settings). Comments and trailing commas are allowed. Beside the keys of
// those hosts stand our own, so that one file serves both:
//
//	{
//	  "mcpServers": {
//	    "fs": {
//	      "command": "npx",
//	      "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"],
//	      "retry": {"max_attempts": 5, "base": "500ms"},
//	      "timeouts": {"call": "2m"}
//	    }
//	  }
//	}
//
// A file that cannot be read is an error. An entry that cannot be used is a
// [Problem] with file and line, and the other entries are returned. A key that
// nobody knows is a problem too, but only a warning.
package config
