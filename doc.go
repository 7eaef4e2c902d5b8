// Package mcpvisor holds the public values of the MCP client runtime: server
// specifications, names, status, events and errors.
//
// A program starts with a client of package facade, registers servers by their
// [ServerSpec], and calls their tools. Package supervisor holds the restart
// policies, and package config reads specifications from files.
package mcpvisor
