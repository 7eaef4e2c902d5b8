package servers

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Unusable returns the entries of a file that cannot be used, each with all that is wrong
// with it.
func Unusable(file *config.File) (all []control.Unusable) {
	for _, s := range file.Unusable {
		var reasons []string
		for _, p := range file.Problems {
			if p.Server == s.Entry && p.Severity == config.SeverityError {
				reasons = append(reasons, cli.ConfigTerms(p.Message))
			}
		}
		all = append(all, control.Unusable{Name: s.Spec.Name, Origin: s.Spec.Origin,
			Reason: fmt.Sprintf("%s (%s)", display.Line(strings.Join(reasons, "; ")), s.Spec.Origin)})
	}
	return all
}

// StandIn returns a spec in place of that of an entry that cannot be used. Its server is
// evicted at once, with the reason as its cause, so that it is seen wherever servers are.
func StandIn(u control.Unusable) mcpvisor.ServerSpec {
	cause := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: u.Reason}
	return mcpvisor.ServerSpec{Name: u.Name, Origin: u.Origin, StartSupervised: true,
		Transport: &mcpvisor.Transport{Kind: "unusable", Target: u.Origin, New: func(context.Context) (mcp.Transport, error) { return nil, cause }}}
}
