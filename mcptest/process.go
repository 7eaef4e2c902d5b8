package mcptest

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"

	"github.com/mcpvisor/mcpvisor/test/fixture/process"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// The script is passed in numbered environment variables. It is compressed and split,
// because some systems limit the size of a variable.
const (
	envScript = "MCPTEST_SCRIPT_"
	chunkSize = 24 << 10
)

// The roles of fixture processes; see package role.
const (
	roleServer     = "server"
	roleGrandchild = "grandchild"
)

// Main runs the fixture that this process was started as, and exits with its status. In any other
// process it returns at once. Call it first in TestMain, or in main, of every binary that uses
// [Stdio], which executes the current binary again.
func Main() {
	role.MainReached()
	switch os.Getenv(role.Env) {
	case roleServer:
		os.Exit(serveProcess())
	case roleGrandchild:
		holdStreams()
	default:
		role.Run()
	}
}

// Stdio returns the script as a process: the current binary, executed again, which must
// call [Main] first. The script is in its environment. The process exits with status 0
// when stdin ends.
//
// Stdio panics if the script is not valid (see [Script.Validate]), if a fault has
// [Fault.Starts] but there is no StateDir to count starts in, or if the path of the
// current binary is unknown.
func Stdio(s Script) *mcpvisor.Stdio {
	s.mustBeValid()
	s.mustCountStarts()
	return role.Stdio(roleServer, encodeScript(s))
}

// encodeScript splits the script over numbered variables.
func encodeScript(s Script) map[string]string {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		err = json.NewEncoder(w).Encode(s)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Errorf("mcptest: encoding the script: %w; check its raw JSON", err))
	}
	text := base64.RawStdEncoding.EncodeToString(packed.Bytes())
	env := map[string]string{}
	for i := 0; len(text) > 0; i++ {
		n := min(chunkSize, len(text))
		env[envScript+strconv.Itoa(i)] = text[:n]
		text = text[n:]
	}
	return env
}

// decodeScript reads the script and removes it from the environment.
func decodeScript() (Script, error) {
	var text strings.Builder
	for i := 0; ; i++ {
		name := envScript + strconv.Itoa(i)
		chunk, ok := os.LookupEnv(name)
		if !ok {
			break
		}
		text.WriteString(chunk)
		_ = os.Unsetenv(name)
	}
	_ = os.Unsetenv(role.Env)
	packed := base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(text.String()))
	var s Script
	if err := json.NewDecoder(flate.NewReader(packed)).Decode(&s); err != nil {
		return Script{}, fmt.Errorf("mcptest: reading the script from the environment: %w; start the fixture with the Env that Stdio returns", err)
	}
	return s, s.Validate()
}

func serveProcess() int {
	script, err := decodeScript()
	counter := statedir.New(script.StateDir)
	start := 0
	if err == nil {
		start, err = counter.CountStart()
	}
	if err == nil {
		err = counter.RecordPID(os.Getpid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s := newServer(context.Background(), script.withDefaults(), processHost{}, counter, start, os.Stdin, os.Stdout, os.Stderr)
	// In a server that has stopped reading, no goroutine can ever run again. A running
	// ticker keeps the Go runtime from reporting that as a deadlock.
	watch := time.NewTicker(time.Minute)
	defer watch.Stop()
	go func() {
		for range watch.C {
			if s.stoppedReading() || s.ignoresEOF.Load() {
				time.Sleep(role.MaxLifetime)
				os.Exit(3)
			}
		}
	}()
	// Not run: a process need not wait for its goroutines, and a write that blocks on
	// stdout would never return.
	s.serve()
	return 0
}

// processHost ends an incarnation by ending the process.
type processHost struct{}

func (processHost) exit(_ *server, code int) { os.Exit(code) }

func (processHost) die(_ *server, signal string) {
	if err := process.Raise(signalName(signal)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The signal may be delivered a moment later; until then nothing may be answered.
	time.Sleep(role.MaxLifetime)
}

func (processHost) ignoreShutdown() { process.IgnoreTermination() }

// fork starts the grandchild and waits until it ignores SIGTERM.
func (processHost) fork(detached bool) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("fork: finding the current binary: %w", err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), role.Env+"="+roleGrandchild)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := process.StartGrandchild(cmd, detached); err != nil {
		return 0, fmt.Errorf("fork: %w", err)
	}
	// The server waits for the grandchild while it runs; afterwards init does.
	go func() { _ = cmd.Wait() }()
	return cmd.Process.Pid, nil
}

// holdStreams is the program of a grandchild. It keeps the inherited streams open,
// ignores polite signals, and does nothing else.
func holdStreams() {
	process.IgnoreTermination()
	process.GrandchildReady()
	time.Sleep(role.MaxLifetime)
	os.Exit(0)
}

// signalName returns the name of a signal in capitals and without "SIG"; KILL by
// default.
func signalName(name string) string {
	return cmp.Or(strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "SIG"), "KILL")
}
