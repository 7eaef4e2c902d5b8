package stdio

import (
	"strings"

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
	found.AddEnv(process.Environ(s))
	found.AddArgs(append(strings.Fields(s.Command)[min(1, len(strings.Fields(s.Command))):], s.Args...))
	return redact.New(&found)
}
