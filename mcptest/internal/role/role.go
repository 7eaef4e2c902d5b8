// Package role lets a test binary be executed again as another program: a fixture
// server or its child. An environment variable names the role; mcptest.Main runs it.
package role

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Env is the environment variable that names the role of a process. It is empty or
// unset in an ordinary process.
const Env = "MCPTEST_ROLE"

// exitNoMain is the status of a process that does not call mcptest.Main.
const exitNoMain = 3

// MaxLifetime bounds the life of a fixture process that ignores every shutdown, so that
// it does not outlive a failed test for long.
const MaxLifetime = 10 * time.Minute

// programs holds the program of each role. Register writes it before main starts; later
// it is only read.
var programs = map[string]func() int{}

// Register adds a role. Call it in an init function: the program must be known when
// Main runs. program returns the exit status.
func Register(name string, program func() int) {
	if programs[name] != nil {
		panic("mcptest: role " + name + " is registered twice")
	}
	programs[name] = program
}

// mainReached: mcptest.Main was called. Written before tests run.
var mainReached bool

// MainReached records that mcptest.Main was called.
func MainReached() { mainReached = true }

// Run runs the program of this process's role and exits with its status. It returns
// in a process without a role, and in one whose role is not registered.
func Run() {
	if program := programs[os.Getenv(Env)]; program != nil {
		os.Exit(program())
	}
}

// Stdio returns the current binary as a server process in the role. env is added to
// its environment. In a process that has a role but runs its tests instead, it ends the
// process: each would start the next one.
func Stdio(name string, env map[string]string) *mcpvisor.Stdio {
	// Variables of packages are set before Main, and before the flags of the tests are parsed.
	if os.Getenv(Env) != "" && !mainReached && flag.Parsed() {
		fmt.Fprintln(os.Stderr, "mcptest: this binary was executed again as a server, but runs its tests: call mcptest.Main first in TestMain")
		os.Exit(exitNoMain)
	}
	all := map[string]string{
		Env: name,
		// A binary built with -race would sleep for a second at every exit.
		"GORACE": "atexit_sleep_ms=0",
	}
	for key, value := range env {
		all[key] = value
	}
	return &mcpvisor.Stdio{Command: Executable(), Env: all}
}

// Executable returns the path of the current binary. It panics if the operating system
// does not provide it.
func Executable() string {
	path, err := os.Executable()
	if err != nil {
		panic(fmt.Errorf("mcptest: finding the current binary: %w", err))
	}
	return path
}
