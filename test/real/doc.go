// Package real runs mcpvisor against MCP servers that nobody here wrote. They
// come from npm, at the versions of package-lock.json; those that need older
// libraries have another one in old/. ./run installs them and
// runs the tests, which have the build tag "real".
package real
