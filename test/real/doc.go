// Package real runs mcpvisor against MCP servers that nobody here wrote. They
// come from npm, at the versions of package-lock.json; ./run installs them and
// runs the tests, which have the build tag "real".
package real
