package stdio

import (
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// stdioRedactor hides the secrets that a stdio server was given: variables of its
// environment and arguments that are secrets by their name or their form, and secrets
// within them. Servers print them in errors ("invalid key sk-…"), and errors are shown,
// logged and passed to models. Other values stay visible: an error about a path is of
// no use without the path.
//
// It uses the whole environment at the time of the call, with inherited variables: the
// URL of a proxy holds a password, and with InheritEnv the server gets all secrets of
// the host.
func stdioRedactor(s *mcpvisor.Stdio, secrets ...string) redact.Redactor {
	var found secret.List
	found.Add(secrets...)
	for _, entry := range process.Environ(s) {
		name, _, _ := strings.Cut(entry, "=")
		if _, own := s.Env[name]; own {
			found.AddEnv([]string{entry})
		} else {
			found.AddList(inherited.secretsOf(entry))
		}
	}
	found.AddArgs(append(strings.Fields(s.Command)[min(1, len(strings.Fields(s.Command))):], s.Args...))
	return redact.New(&found)
}

// inherited remembers the secrets in the variables of the host: each server inherits the
// same ones, and to search them takes longer than most of what a start does here.
var inherited inheritedSecrets

type inheritedSecrets struct {
	mu    sync.Mutex
	byVar map[string]*secret.List // by variable, as NAME=value; guarded by mu
}

// maxInherited is how many variables are remembered. A host that changes its environment
// again and again has more.
const maxInherited = 1000

// secretsOf returns the secrets in a variable. Do not change the list.
func (s *inheritedSecrets) secretsOf(entry string) *secret.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, known := s.byVar[entry]
	if !known {
		list = new(secret.List)
		list.AddEnv([]string{entry})
		if s.byVar == nil || len(s.byVar) >= maxInherited {
			s.byVar = make(map[string]*secret.List)
		}
		s.byVar[entry] = list
	}
	return list
}
