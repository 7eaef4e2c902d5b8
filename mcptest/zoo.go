package mcptest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// The tools of every server of the zoo. [ZooBad] is where those servers
// misbehave that do so in calls; [ZooEcho] answers with its argument text, as
// far as the server is still able to.
const (
	ZooBad  = "bad"
	ZooEcho = "echo"
)

// ZooFine is the text of a right answer of the tool [ZooBad].
const ZooFine = "fine"

// What a server of the zoo offers beside its tools.
const (
	ZooResource = "zoo://resource"
	ZooPrompt   = "prompt"
)

// Misbehaviour is one way in which a stdio server goes wrong, to try a client
// against: each of them has been seen in the wild, or can be done by a server
// that means harm. A client that is any good fails the one call in question,
// or replaces the one server, and loses nothing else by it.
type Misbehaviour struct {
	// Name is unique: the stage at which it shows, a slash and what happens, as
	// in "call/half-line". See [Misbehaviour.Stage].
	Name string
	// About says in a sentence what the server does.
	About string
	// Unstartable: there is no process, starting it fails.
	Unstartable bool

	// Exactly one of the three is set.
	script  *Script
	serve   func(*creature)
	command func(dir string) (*mcpvisor.Stdio, error)
	// process: it needs a process of its own, as opposed to a goroutine.
	process bool
}

// Misbehaviours lists every misbehaviour of a stdio server, by stage and then by name.
func Misbehaviours() []Misbehaviour {
	all := slices.Concat(spawnZoo, negotiationZoo, handshakeZoo, listZoo, callZoo, idZoo, resultZoo, trafficZoo, streamZoo, processZoo)
	slices.SortFunc(all, func(a, b Misbehaviour) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// MisbehaviourNamed finds one of the [Misbehaviours] by its name; ok is false
// if there is none.
func MisbehaviourNamed(name string) (m Misbehaviour, ok bool) {
	for _, m := range Misbehaviours() {
		if m.Name == name {
			return m, true
		}
	}
	return Misbehaviour{}, false
}

// Stage is the first half of the name: spawn, negotiation, handshake or list in
// a start; call, answer, id, error, result, read or prompt in a call;
// notification, request or stream for what comes beside it; process, liveness
// or shutdown.
func (m Misbehaviour) Stage() string {
	stage, _, _ := strings.Cut(m.Name, "/")
	return stage
}

// Stdio is the misbehaviour as a process. Like [Stdio] it executes the current
// binary again, which must call [Main] first thing. dir is an existing
// directory, which belongs to this server: it keeps its accounts there (see
// [Starts] and [Pids]), and what else it needs.
//
// Stdio panics if something cannot be put into dir.
func (m Misbehaviour) Stdio(dir string) *mcpvisor.Stdio {
	switch {
	case m.script != nil:
		s := *m.script
		s.StateDir = dir
		return Stdio(s)
	case m.command != nil:
		spec, err := m.command(dir)
		if err != nil {
			panic(fmt.Errorf("mcptest: preparing %s: %w; dir must be a directory that can be written to", m.Name, err))
		}
		return spec
	}
	return &mcpvisor.Stdio{Command: currentBinary(), Env: zooEnv(m.Name, dir)}
}

// InMemory is the misbehaviour as a goroutine of this process. ok is false
// for those that need a process of their own.
func (m Misbehaviour) InMemory() (server *mcpvisor.InMemory, ok bool) {
	switch {
	case m.process || m.command != nil:
		return nil, false
	case m.script != nil:
		return InMemory(*m.script), true
	}
	return &mcpvisor.InMemory{Serve: m.serveInMemory}, true
}

func currentBinary() string {
	exe, err := os.Executable()
	if err != nil {
		panic(fmt.Errorf("mcptest: finding the current binary: %w", err))
	}
	return exe
}

// zooEnv makes the current binary a server of the zoo.
func zooEnv(name, dir string) map[string]string {
	return map[string]string{envRole: roleZoo, envZoo: name, envZooDir: dir, "GORACE": "atexit_sleep_ms=0"}
}

// scripted is a misbehaviour that faults can say.
func scripted(name, about string, faults ...Fault) Misbehaviour {
	return Misbehaviour{Name: name, About: about, script: &Script{Faults: faults,
		Tools: []ToolDef{{Name: ZooBad, Text: ZooFine}, {Name: ZooEcho, As: "echo"}}}}
}

// wild is a misbehaviour by hand.
func wild(name, about string, serve func(*creature)) Misbehaviour {
	return Misbehaviour{Name: name, About: about, serve: serve}
}
