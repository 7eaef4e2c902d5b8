// Package fleet runs one catalog of MCP servers on several machines.
package fleet
