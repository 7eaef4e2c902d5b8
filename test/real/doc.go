// Package real runs mcpvisor against MCP servers of other projects. They come from
// npm, at the versions of package-lock.json. Servers that need older libraries have a
// lock of their own in old/. ./run installs them and runs the tests, which have the
// build tag "real".
package real
