package mcpvisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ToolSetting says how one tool of a server is offered. The zero value changes nothing. To hide a tool, use
// [ServerSpec.Tools].
type ToolSetting struct {
	// Name is the name under which the tool is offered in place of the server's own: 1 to 128 characters of
	// [A-Za-z0-9_.-]. A tool of the server that has this name itself is left out, with a warning in the status.
	// Default: the server's own name.
	Name string
	// Description replaces the server's description of the tool. Default: the server's.
	Description string
	// Fixed are arguments that every call of the tool gets, as JSON by name. Callers do not see them in the input
	// schema, and a call that has one of them, in any case of its letters, fails with ErrInvalid. One that the
	// schema does not declare at its top is sent, and is a warning in the status.
	Fixed map[string]json.RawMessage
	// Defaults are arguments, as JSON by name, that a call gets unless it has them. They become "default" in the
	// input schema, and are not required there.
	Defaults map[string]json.RawMessage
	// Timeout is the time without progress for calls of the tool, in place of Timeouts.Call. A timeout of the call
	// or of the client takes precedence, and Timeouts.CallTotal bounds the call as a whole. Default: Timeouts.Call.
	Timeout time.Duration
}

func (s ToolSetting) clone() ToolSetting {
	s.Fixed, s.Defaults = cloneArguments(s.Fixed), cloneArguments(s.Defaults)
	return s
}

func cloneArguments(arguments map[string]json.RawMessage) map[string]json.RawMessage {
	arguments = maps.Clone(arguments)
	for name, value := range arguments {
		arguments[name] = bytes.Clone(value)
	}
	return arguments
}

// validateToolSettings checks each setting, and that no two tools share a name.
func (s ServerSpec) validateToolSettings() (errs []error) {
	named := map[string]string{} // the tools by the names that the settings give them
	for _, own := range slices.Sorted(maps.Keys(s.ToolSettings)) {
		setting := s.ToolSettings[own]
		name := setting.Name
		if own == "" {
			errs = append(errs, errors.New("tool settings: the name of a tool is empty; write the server's name for it"))
		}
		if name == "" {
			name = own
		} else if !isToolName(name) {
			errs = append(errs, fmt.Errorf("tool settings: the name %.150q of tool %.100q is not one; use 1 to 128 letters, digits, '_', '.' or '-'", name, own))
		}
		if other, taken := named[name]; taken {
			errs = append(errs, fmt.Errorf("tool settings: the tools %.100q and %.100q are both called %.100q; choose another name for one", other, own, name))
		}
		named[name] = own
		errs = append(errs, setting.validateArguments(own)...)
		if setting.Timeout < 0 {
			errs = append(errs, fmt.Errorf("tool settings: the timeout of tool %.100q is negative; use 0 for Timeouts.Call", own))
		}
	}
	for own, setting := range s.ToolSettings {
		renamed := setting.Name != "" && setting.Name != own
		if _, again := named[own]; renamed && !again && (slices.Contains(s.Tools.Allow, own) || slices.Contains(s.Tools.Deny, own)) {
			errs = append(errs, fmt.Errorf("tools: %.100q is called %.100q, so the pattern matches no tool; write that name", own, setting.Name))
		}
	}
	return errs
}

func (s ToolSetting) validateArguments(tool string) (errs []error) {
	for _, arguments := range []map[string]json.RawMessage{s.Fixed, s.Defaults} {
		for _, name := range slices.Sorted(maps.Keys(arguments)) {
			if !json.Valid(arguments[name]) {
				errs = append(errs, fmt.Errorf("tool settings: the argument %.100q of tool %.100q is not JSON; encode its value", name, tool))
			}
		}
	}
	for name := range s.Defaults {
		for fixed := range s.Fixed {
			if strings.EqualFold(fixed, name) {
				errs = append(errs, fmt.Errorf("tool settings: the argument %.100q of tool %.100q is fixed, so it has no default; remove one of the two", name, tool))
			}
		}
	}
	return errs
}

// isToolName reports whether hosts and models accept a name of a tool (MCP, server, tools: tool names).
func isToolName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 128
}
