package servers

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
)

// LoadForNodes reads configuration files for other machines: what they refer to need not exist
// here. A variable that is set here has its value, and everything else a stand-in.
func LoadForNodes(paths []string) (*config.File, error) {
	return config.LoadFiles(paths, websocket.Option,
		config.WithLookup(func(name string) (string, bool) {
			if value, set := os.LookupEnv(name); set && value != "" {
				return value, true
			}
			for _, part := range []string{"URL", "URI", "ENDPOINT"} {
				if strings.Contains(strings.ToUpper(name), part) {
					return "https://stand-in.invalid/", true
				}
			}
			return "stand-in", true
		}),
		config.WithFiles(func(string) (string, error) { return "stand-in", nil }),
		config.WithKeyring(func(string, string) (string, error) { return "stand-in", nil }))
}

// ResolveDefinition makes the specification of a server of a fleet from its definition, an entry of a
// configuration file, with the variables, the files and the keyring of this machine. Relative paths
// begin at the working directory.
func ResolveDefinition(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error) {
	failed := func(why string) (mcpvisor.ServerSpec, error) {
		return mcpvisor.ServerSpec{}, fmt.Errorf("the definition of server %q cannot be used on this node: %s", name, why)
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]json.RawMessage{name: definition}})
	if err != nil {
		return failed("it is not JSON")
	}
	file, err := config.Parse(text, "fleet", websocket.Option, config.WithKeyring(lookUpSecret))
	if err != nil {
		return failed(err.Error())
	}
	if len(file.Servers) == 1 && !file.Servers[0].Disabled && file.Servers[0].Spec.Name == name {
		spec := file.Servers[0].Spec
		spec.Origin = "the fleet"
		return spec, nil
	}
	var problems []string
	for _, p := range file.Problems {
		if p.Severity == config.SeverityError {
			problems = append(problems, p.Message)
		}
	}
	if len(problems) == 0 {
		return failed("it is disabled, or its name cannot be that of a server")
	}
	return failed(strings.Join(problems, "; "))
}
