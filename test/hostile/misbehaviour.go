package hostile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

// The tools of every server here.
const (
	// BadTool is the tool whose calls fail, if the misbehaviour is about calls. Its
	// right answer is [FineText].
	BadTool = "bad"
	// EchoTool answers with its argument text as far as the server can. A right answer
	// shows that the session is still usable.
	EchoTool = "echo"
	// FineText is the text of a right answer of [BadTool].
	FineText = "fine"
)

// What every server offers beside its tools.
const (
	// ResourceURI is the URI of the one resource.
	ResourceURI = "hostile://resource"
	// PromptName is the name of the one prompt.
	PromptName = "prompt"
)

// Misbehaviour is one way in which a stdio server misbehaves. Copy it freely; start it
// as often as needed, with [Misbehaviour.Stdio] or [Misbehaviour.InMemory].
//
// A client should fail the one call, or replace the one server, and lose nothing else.
type Misbehaviour struct {
	// Name is unique: the stage of the misbehaviour, a slash, and what happens, as in
	// "call/half-line". See [Misbehaviour.Stage].
	Name string
	// About says in one sentence what the server does wrong, and where useful which
	// mistake of a client this exposes.
	About string
	// Unstartable: the process cannot be started.
	Unstartable bool

	// Exactly one of script, serve and command is set.
	script  *mcptest.Script                           // the fixture server with faults
	serve   func(*stdioServer)                        // a server written by hand
	command func(dir string) (*mcpvisor.Stdio, error) // another program; dir belongs to it
	// process: the server cannot run as a goroutine.
	process bool
}

// Misbehaviours returns every misbehaviour of a stdio server, sorted by name. Some
// exist on Linux only.
func Misbehaviours() []Misbehaviour {
	all := slices.Concat(spawnRows, negotiationRows, handshakeRows, listRows, callRows, answerRows, resultRows, taskRows, trafficRows, streamRows, processRows)
	slices.SortFunc(all, func(a, b Misbehaviour) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// MisbehaviourNamed returns the one of [Misbehaviours] with that name; ok is false if
// it does not exist.
func MisbehaviourNamed(name string) (m Misbehaviour, ok bool) {
	for _, m := range Misbehaviours() {
		if m.Name == name {
			return m, true
		}
	}
	return Misbehaviour{}, false
}

// Stage returns the first part of the name. It is spawn, negotiation, handshake or list
// for a start; call, answer, id, error, result, task, read or prompt for a call;
// notification, request or stream for other output of the server; and process, liveness
// or shutdown.
func (m Misbehaviour) Stage() string {
	stage, _, _ := strings.Cut(m.Name, "/")
	return stage
}

// Stdio returns the misbehaviour as a process. Most execute the current binary again,
// which must call [mcptest.Main] first. dir is an existing directory that belongs to
// this server, which counts its starts and processes there (see [mcptest.Starts] and
// [mcptest.PIDs]).
//
// Stdio panics if dir cannot be written to.
func (m Misbehaviour) Stdio(dir string) *mcpvisor.Stdio {
	switch {
	case m.script != nil:
		s := *m.script
		s.StateDir = dir
		return mcptest.Stdio(s)
	case m.command != nil:
		spec, err := m.command(dir)
		if err != nil {
			panic(fmt.Errorf("hostile: preparing %s: %w; dir must be a writable directory", m.Name, err))
		}
		return spec
	}
	return handWrittenProcess(m.Name, dir)
}

// InMemory returns the misbehaviour as a goroutine of this process. ok is false for
// those that need a process.
func (m Misbehaviour) InMemory() (server *mcpvisor.InMemory, ok bool) {
	switch {
	case m.process || m.command != nil:
		return nil, false
	case m.script != nil:
		return mcptest.InMemory(*m.script), true
	}
	return &mcpvisor.InMemory{Serve: m.serveInMemory}, true
}

// scripted is a misbehaviour that faults of the fixture server can express.
func scripted(name, about string, faults ...mcptest.Fault) Misbehaviour {
	return Misbehaviour{Name: name, About: about, script: &mcptest.Script{Faults: faults,
		Tools: []mcptest.ToolDef{{Name: BadTool, Text: FineText}, {Name: EchoTool, As: "echo"}}}}
}

// handWritten is a misbehaviour with a server of its own.
func handWritten(name, about string, serve func(*stdioServer)) Misbehaviour {
	return Misbehaviour{Name: name, About: about, serve: serve}
}

// handWrittenProcess returns the process of the hand-written misbehaviour of that name.
func handWrittenProcess(name, dir string) *mcpvisor.Stdio {
	return role.Stdio(roleName, map[string]string{envName: name, envDir: dir})
}
