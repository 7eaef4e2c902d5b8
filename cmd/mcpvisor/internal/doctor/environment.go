package doctor

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/environ"
)

// variableNames matches words that may be names of environment variables.
var variableNames = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b[A-Z]{4,}\b`)

// missingVariables returns the environment variables that the server's output
// mentions, and that are set here and not passed to the server.
func missingVariables(s *mcpvisor.Stdio, lines []string) (names []string) {
	if s == nil || s.InheritEnv {
		return nil
	}
	for _, text := range lines {
		for _, name := range variableNames.FindAllString(text, -1) {
			_, given := s.Env[name]
			if os.Getenv(name) != "" && !given && !environ.Inherits(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missingVariablesAdvice says how to pass variables to the server.
func missingVariablesAdvice(names []string) string {
	verb, them := "is", "it"
	if len(names) > 1 {
		verb, them = "are", "them"
	}
	return fmt.Sprintf("%s %s set in your shell and not passed to the server; add %s to \"env\" (\"%s\": \"${%s}\"), or set \"inherit_env\": true",
		strings.Join(names, ", "), verb, them, names[0], names[0])
}
