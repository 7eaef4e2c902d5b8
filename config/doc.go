// Package config reads the lists of MCP servers that other hosts use, and makes
// [mcpvisor.ServerSpec] values from them.
//
// [Load] reads the mcpServers object of Claude Desktop, Claude Code (.mcp.json),
// Cursor and Gemini CLI, and the servers object of VS Code, also below "mcp" in
// its settings. At the top of a file may also be "journal" ([File].Journal), "records", "gateway"
// ([File].Gateway) and "groups" ([File].Groups); other keys there belong to its host and are skipped.
// [LoadFiles] reads several files as one, for instance those of a user and of a project.
//
// What a file may say, the variables in it, and its keys with their values, defaults and the
// fields of [mcpvisor.ServerSpec] that they set are in
// https://github.com/mcpvisor/mcpvisor/blob/main/docs/config.md, which is made from the table
// of keys. `mcpvisor config schema` prints a JSON Schema for editors, made from the same
// table; a file names it with "$schema".
//
// [WithInput] answers ${input:id}, unless the environment does, and [WithKeyring]
// ${keyring:service/account}. Values of files, of the keyring and of inputs that are passwords
// become Secrets of the server.
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
// This package is large because a third of it is the tables of keys.
package config
