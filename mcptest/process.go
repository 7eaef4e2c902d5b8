package mcptest

import (
	"bytes"
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
)

// The environment variables by which a re-executed binary knows its part. The
// script is compressed and cut, for one variable holds little on some systems.
const (
	envRole   = "MCPTEST_ROLE"
	envScript = "MCPTEST_SCRIPT_"

	roleServer     = "server"
	roleGrandchild = "grandchild"

	chunkSize = 24 << 10
)

// maxLoiter ends processes that nobody ended: a fixture that ignores every
// polite request must not outlive a failed test by more than this.
const maxLoiter = 10 * time.Minute

// Main must be called first in TestMain, or in main, of a binary that uses
// [Stdio]. In a process that was started as a fixture it serves and exits; in
// any other it returns at once.
func Main() {
	switch os.Getenv(envRole) {
	case roleServer:
		os.Exit(serveProcess())
	case roleGrandchild:
		loiter()
	case roleZoo:
		os.Exit(serveZoo())
	}
}

// Stdio is the script as a process: the current binary, executed again. Its
// environment holds all that it needs. The process exits with status 0 when
// stdin ends.
//
// Stdio panics if the script is not valid (see [Script.Validate]), if one of its
// faults has [Fault.Starts] and there is no StateDir to count them in, or if the
// path of the current binary cannot be found out.
func Stdio(s Script) *mcpvisor.Stdio {
	s.mustBeValid()
	s.mustCountStarts()
	exe, err := os.Executable()
	if err != nil {
		panic(fmt.Errorf("mcptest: finding the current binary: %w", err))
	}
	env := encodeScript(s)
	env[envRole] = roleServer
	// A binary built with -race would sleep for a second at every exit.
	env["GORACE"] = "atexit_sleep_ms=0"
	return &mcpvisor.Stdio{Command: exe, Env: env}
}

// encodeScript spreads the script over numbered variables.
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

// decodeScript reads the script back and clears it from the environment.
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
	_ = os.Unsetenv(envRole)
	packed := base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(text.String()))
	var s Script
	if err := json.NewDecoder(flate.NewReader(packed)).Decode(&s); err != nil {
		return Script{}, fmt.Errorf("mcptest: reading the script from the environment: %w; start the fixture with the Env that Stdio gives", err)
	}
	return s, s.Validate()
}

func serveProcess() int {
	script, err := decodeScript()
	acc := newAccounts(script.StateDir)
	start := 0
	if err == nil {
		start, err = acc.begin()
	}
	if err == nil {
		err = acc.recordPid(os.Getpid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s := newServer(context.Background(), script.withDefaults(), processHost{}, acc, start, os.Stdin, os.Stdout, os.Stderr)
	// A timer that runs keeps the runtime from taking a deaf server, in which
	// nothing ever happens again, for a deadlock.
	watch := time.NewTicker(time.Minute)
	defer watch.Stop()
	go func() {
		for range watch.C {
			if s.isDeaf() || s.stubborn.Load() {
				time.Sleep(maxLoiter)
				os.Exit(3)
			}
		}
	}()
	// Not run: nothing of a process needs to be waited for, and a write that is
	// blocked on stdout would not come back.
	s.serve()
	return 0
}

// processHost ends an incarnation as processes end.
type processHost struct{}

func (processHost) exit(_ *server, code int) { os.Exit(code) }

func (processHost) die(_ *server, signal string) {
	if err := raise(signalName(signal)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The signal is on its way; nothing must be answered meanwhile.
	time.Sleep(maxLoiter)
}

func (processHost) ignoreShutdown() { ignoreTermination() }

// fork starts the grandchild and waits until it ignores SIGTERM.
func (processHost) fork(detached bool) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("fork: finding the current binary: %w", err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envRole+"="+roleGrandchild)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := startGrandchild(cmd, detached); err != nil {
		return 0, fmt.Errorf("fork: %w", err)
	}
	// Reaped here as long as the server lives, by init afterwards.
	go func() { _ = cmd.Wait() }()
	return cmd.Process.Pid, nil
}

// loiter is the grandchild: it holds the streams and does nothing.
func loiter() {
	ignoreTermination()
	grandchildReady()
	time.Sleep(maxLoiter)
	os.Exit(0)
}

// signalName is a signal without "SIG"; KILL by default.
func signalName(name string) string {
	return orDefault(strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "SIG"), "KILL")
}
