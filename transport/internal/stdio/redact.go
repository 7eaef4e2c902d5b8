package stdio

import (
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// stdioRedactor hides what a stdio server was given in confidence: variables of its
// environment and arguments that are secrets by their name or by their looks,
// and secrets within them. Servers print them when they complain ("invalid key
// sk-…"), and what they print is shown, logged and handed to models. Not
// everything is hidden: a complaint about a path is of no use without the path.
//
// The environment is that of the moment, with what is inherited: the URL of a
// proxy holds a password, and with InheritEnv the host's own secrets are there.
func stdioRedactor(s *mcpvisor.Stdio, secrets ...string) redact.Redactor {
	var found secret.List
	found.Add(secrets...)
	found.AddEnv(process.Environ(s))
	found.AddArgs(append(strings.Fields(s.Command)[min(1, len(strings.Fields(s.Command))):], s.Args...))
	return redact.New(&found)
}
