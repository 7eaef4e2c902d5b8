// Package fleet is not part of the stable API. It is in the making, and has nothing to call yet. It
// will run one catalog of MCP servers on several machines, with servers that exist only once.
// docs/fleet.md of the repository says what is built below it.
package fleet
