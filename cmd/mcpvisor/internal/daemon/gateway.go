package daemon

import (
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

// settingsOf returns what a configuration says about the gateway. Its "gateway" must not be broken.
func settingsOf(file *config.File) gateway.Settings {
	s := gateway.Settings{Names: &gateway.Names{HostPrefix: settings.DefaultHostPrefix}}
	if file.Gateway != nil {
		s = file.Gateway.Settings
	}
	s.OnDownOf = map[string]gateway.OnDown{}
	for _, server := range file.Servers {
		if server.OnDown != nil {
			s.OnDownOf[server.Spec.Name] = *server.OnDown
		}
	}
	return s
}

// gatewayProblem says why "gateway" of a configuration cannot be used, with its places in the files;
// empty if it can.
func gatewayProblem(file *config.File) string { return gatewayProblems(file, config.Problem.String) }

func gatewayProblems(file *config.File, textOf func(config.Problem) string) string {
	if file.Gateway == nil || !file.Gateway.Broken {
		return ""
	}
	var problems []string
	for _, p := range file.Problems {
		if p.Server == "" && p.Severity == config.SeverityError {
			problems = append(problems, cli.ConfigTerms(textOf(p)))
		}
	}
	return strings.Join(problems, "; ")
}

// sharesOf returns which servers of a configuration run once for each client. Those in kept have an entry
// that is no longer usable, and run as before.
func sharesOf(file *config.File, kept map[string]bool, before map[string]gateway.Share) map[string]gateway.Share {
	shares := map[string]gateway.Share{}
	for _, server := range file.Servers {
		if server.Share != "" {
			shares[server.Spec.Name] = server.Share
		}
	}
	for name := range kept {
		shares[name] = before[name]
	}
	return shares
}

// useGateway applies what a configuration says about the gateway. What cannot be used leaves it as it
// is, and is a problem until the next reading. But each server is shared as its entry says in any case:
// two clients must not meet in one process because of another mistake.
func (r *reloader) useGateway(file *config.File, kept map[string]bool) {
	shares := sharesOf(file, kept, r.gateway.ShareOf)
	r.info.GatewayProblem = gatewayProblem(file)
	if r.info.GatewayProblem == "" {
		next := settingsOf(file)
		next.ShareOf = shares
		err := r.settings.Set(next)
		if err == nil {
			r.gateway = next
			return
		}
		r.info.GatewayProblem = err.Error()
	}
	r.gateway.ShareOf = shares
	_ = r.settings.Set(r.gateway) // it was valid before
}

// newLists returns a gateway that is not served: its status says which tools are withheld.
func newLists(c *facade.Client, settings *gateway.SettingsVar) *gateway.Server {
	return gateway.Handler(c, gateway.WithSettings(settings))
}
