//go:build !linux

package mcptest

// unixZoo is what only a process on Linux can do.
var unixZoo []Misbehaviour
