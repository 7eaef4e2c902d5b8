// Package config reads the lists of MCP servers that other hosts use, and makes
// [mcpvisor.ServerSpec] values from them.
//
// [Load] reads the mcpServers object of Claude Desktop, Claude Code (.mcp.json),
// Cursor and Gemini CLI, and the servers object of VS Code, also below "mcp" in
// its settings. Comments and trailing commas are allowed. At the top of a file may also be
// "journal" ([File].Journal) and "gateway" ([File].Gateway); other keys there
// belong to its host and are skipped. An entry may have keys of mcpvisor
// beside those of its host, so one file serves both:
//
//	{
//	  "mcpServers": {
//	    "fs": {
//	      "command": "npx",
//	      "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"],
//	      "retry": {"max_attempts": 5, "base": "500ms", "park": "5m"},
//	      "timeouts": {"call": "2m"}
//	    }
//	  }
//	}
//
// # Names
//
// Any text may name an entry. One that cannot name a server, such as
// "microsoft/playwright-mcp", gets a legal name that is derived from it, and a
// warning says which. [Server].Entry keeps the text.
//
// # Values
//
// A duration is a string such as "1.5s", or a number of seconds. A relative cwd or
// envFile begins at the workspace, which is the directory of the file; see
// [WithWorkspace]. A relative command with a slash begins at cwd, by default the
// directory of this process. ~/ at the start of command, cwd and envFile is the home
// directory. null is the same as no key. A command line in command ("npx -y
// some-server") is split, with a warning, unless a program has that name.
//
// Variables such as ${VAR}, ${VAR:-default}, ${workspaceFolder} and ${file:path} are replaced
// in command, args, cwd, envFile, url, tools, auth, and in the values of env and headers.
// docs/config.md in the repository lists them. [WithInput] answers ${input:id}, unless the
// environment does, and [WithKeyring] ${keyring:service/account}. Values of files, of the
// keyring and of inputs that are passwords become Secrets of the server.
//
// # Several files
//
// [LoadFiles] reads several files as one, for instance those of a user and of a project. An
// entry of a later file replaces that of the same name as a whole. Each server says from
// which file and line it is, and what it replaced.
//
// # Schema
//
// [Schema] is a JSON Schema of these files, for editors. It is made from the same table as
// [Keys]. A file names it with "$schema": [SchemaURL].
//
// # Problems
//
// A file that cannot be used at all is an error. An entry that cannot be used is
// a [Problem] with file and line, and the other entries are returned. An unknown
// key is a problem too, but only a warning. Errors and problems hold the names of
// variables, never their values.
//
// Each key of an entry is checked, so one reading reports every bad value. What concerns
// the entry as a whole (its transport, the validity of its [mcpvisor.ServerSpec]) is
// checked only if all its values are usable, so correcting them may show further
// problems.
//
// # Concurrency
//
// [Load], [Parse] and the other functions may be called by many goroutines at once. The
// functions of options are called in the goroutine of Load or Parse. A [File] is the
// caller's; it is not safe for changes by several goroutines.
//
// # Keys of an entry
//
// docs/config.md in the repository has a table of all keys: their values, defaults and meanings,
// and the fields of [mcpvisor.ServerSpec] that they set. [Keys] returns the same for programs:
// https://github.com/mcpvisor/mcpvisor/blob/main/docs/config.md#keys-of-an-entry
//
// This package is large because a third of it is the tables of keys.
package config
