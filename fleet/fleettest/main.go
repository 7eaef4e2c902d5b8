//go:build linux

package fleettest

import (
	"fmt"
	"os"
)

// roleName is the variable that makes the test binary another program.
const roleName = "MCPVISOR_FLEETTEST"

const (
	roleServer = "server"
	roleNode   = "node"
)

// Main runs the node or the server that this process was started as, and does not return then.
// TestMain calls it first of all.
func Main() {
	guardMain()
	var err error
	switch os.Getenv(roleName) {
	case roleServer:
		err = runServer(os.Stdin, os.Stdout)
	case roleNode:
		err = runNode(os.Stdin, os.Stdout)
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleettest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// program is the test binary.
func program() string {
	path, err := os.Executable()
	if err != nil {
		panic(fmt.Errorf("fleettest: %w", err))
	}
	return path
}
