// Package real runs mcpvisor against MCP servers of other projects. They come from
// npm, at the versions of package-lock.json. Servers that need older libraries have a
// lock of their own in old/. Clients of other projects are hosts of the gateway, in hosts/. ./run installs them and runs the tests, which have the
// build tag "real".
package real
