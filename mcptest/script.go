package mcptest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// Protocol versions that a [Script] can speak.
const (
	version20241105 = "2024-11-05"
	version20250326 = "2025-03-26"
	version20250618 = "2025-06-18"
	version20251125 = "2025-11-25"
	// version20260728 is the first version without initialize.
	version20260728 = "2026-07-28"
)

// allVersions lists every protocol version that a [Script] can speak, oldest
// first.
func allVersions() []string {
	return []string{version20241105, version20250326, version20250618, version20251125, version20260728}
}

// Script describes one server. The zero value is a correct server with the default
// tools, resources and prompts. A script can be converted to JSON and back; durations
// are then strings ("50ms") or milliseconds.
type Script struct {
	// Name is the name in serverInfo. Default "mcptest".
	Name string `json:"name,omitempty"`
	// Version is the version in serverInfo. Default "1.0.0".
	Version string `json:"version,omitempty"`
	// Versions are the protocol versions that the server speaks. Empty means
	// all, 2024-11-05 to 2026-07-28. initialize is refused if only 2026-07-28 is listed; server/discover is
	// unknown if it is not listed.
	Versions []string `json:"versions,omitempty"`
	// Instructions are sent to the client with initialize or server/discover. Default:
	// none.
	Instructions string `json:"instructions,omitempty"`

	// Tools replace [DefaultTools]. Default: DefaultTools.
	//
	// "{start}" in a description of a tool or prompt, and in the name of a resource or
	// template, stands for the number of the incarnation, so a test sees whose list it has.
	Tools []ToolDef `json:"tools,omitempty"`
	// ExtraTools is the number of generated tools, tool_0000, tool_0001 and so on. They
	// echo their arguments.
	ExtraTools int `json:"extraTools,omitempty"`
	// Resources replace [DefaultResources].
	Resources []ResourceDef `json:"resources,omitempty"`
	// Templates replace [DefaultTemplates].
	Templates []TemplateDef `json:"templates,omitempty"`
	// Prompts replace [DefaultPrompts].
	Prompts []PromptDef `json:"prompts,omitempty"`
	// NoTools, NoResources and NoPrompts leave a capability undeclared and its methods
	// unknown. NoResources includes the templates.
	NoTools     bool `json:"noTools,omitempty"`
	NoResources bool `json:"noResources,omitempty"`
	NoPrompts   bool `json:"noPrompts,omitempty"`
	// PageSize is the largest number of entries on a page of a list. 0 means all.
	PageSize int `json:"pageSize,omitempty"`

	// StateDir is an existing directory for the counts that outlive an incarnation; see
	// [Starts]. If it is empty, each process counts from 0, and an in-memory server
	// counts over the incarnations of one InMemory.
	StateDir string `json:"stateDir,omitempty"`
	// StartDelay is how long the server waits before it reads. Default 0.
	StartDelay time.Duration `json:"startDelay,omitempty"`
	// Faults are the misbehaviours of the server. Faults at the same stage happen in
	// their order.
	Faults []Fault `json:"faults,omitempty"`
}

// errScript is wrapped by every error about a script that cannot be run.
var errScript = errors.New("mcptest script")

// Validate reports every error in the script.
func (s Script) Validate() error {
	var errs []error
	for _, v := range s.Versions {
		if !slices.Contains(allVersions(), v) {
			errs = append(errs, fmt.Errorf("%w: protocol version %q is unknown; use versions from %v", errScript, v, allVersions()))
		}
	}
	if s.ExtraTools < 0 || s.PageSize < 0 || s.StartDelay < 0 {
		errs = append(errs, fmt.Errorf("%w: ExtraTools, PageSize and StartDelay must not be negative", errScript))
	}
	for _, t := range s.Tools {
		for _, raw := range []json.RawMessage{t.InputSchema, t.OutputSchema, t.Annotations, t.Structured} {
			if len(raw) > 0 && !json.Valid(raw) {
				errs = append(errs, fmt.Errorf("%w: tool %q: %.40q is not JSON; correct it", errScript, t.Name, raw))
			}
		}
		if _, ok := tools.Named(t.As); !ok && t.As != "" {
			errs = append(errs, fmt.Errorf("%w: tool %q behaves as %q, which is not the name of a default tool; see DefaultTools for their names", errScript, t.Name, t.As))
		}
	}
	for i, f := range s.Faults {
		if f.Do == ActionBadTool && f.Text != "" && !json.Valid([]byte(f.Text)) {
			errs = append(errs, fmt.Errorf("%w: fault %d: %.40q is not JSON, so the list would be malformed; use ActionMalformed for that", errScript, i, f.Text))
		}
		if err := f.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%w: fault %d: %w", errScript, i, err))
		}
	}
	return errors.Join(errs...)
}

// withDefaults fills in everything that was left empty.
func (s Script) withDefaults() Script {
	s.Name, s.Version = cmp.Or(s.Name, "mcptest"), cmp.Or(s.Version, "1.0.0")
	if len(s.Versions) == 0 {
		s.Versions = allVersions()
	}
	s.Versions = slices.Clone(s.Versions)
	slices.Sort(s.Versions)
	if len(s.Tools) == 0 {
		s.Tools = DefaultTools()
	}
	s.Tools = slices.Clone(s.Tools)
	for i := range s.ExtraTools {
		s.Tools = append(s.Tools, ToolDef{Name: fmt.Sprintf("tool_%04d", i), Description: "Echoes its arguments."})
	}
	if len(s.Resources) == 0 {
		s.Resources = DefaultResources()
	}
	if len(s.Templates) == 0 {
		s.Templates = DefaultTemplates()
	}
	if len(s.Prompts) == 0 {
		s.Prompts = DefaultPrompts()
	}
	return s
}

// mustBeValid panics if the script is not valid. Otherwise a test whose fault is never
// injected because of a typing error would pass.
func (s Script) mustBeValid() {
	if err := s.Validate(); err != nil {
		panic(err)
	}
}

// mustCountStarts panics if a fault needs the number of the start but no StateDir
// counts starts.
func (s Script) mustCountStarts() {
	for i, f := range s.Faults {
		if len(f.Starts) > 0 && s.StateDir == "" {
			panic(fmt.Errorf("%w: fault %d happens in the starts %v, which a process cannot count; set StateDir to a directory such as t.TempDir()", errScript, i, f.Starts))
		}
	}
}

type scriptFields Script

// scriptWire is the script with its duration as JSON has it.
func scriptWire(s *Script) any {
	return &struct {
		*scriptFields
		StartDelay *jsonDuration `json:"startDelay,omitzero"`
	}{(*scriptFields)(s), (*jsonDuration)(&s.StartDelay)}
}

// MarshalJSON implements [json.Marshaler].
func (s Script) MarshalJSON() ([]byte, error) { return json.Marshal(scriptWire(&s)) }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Script) UnmarshalJSON(data []byte) error {
	var read Script
	if err := json.Unmarshal(data, scriptWire(&read)); err != nil {
		return fmt.Errorf("reading a script: %w", err)
	}
	*s = read
	return nil
}

// jsonDuration is a duration in JSON: "50ms" instead of nanoseconds. It shadows the field.
type jsonDuration time.Duration

// IsZero says that it is left out.
func (d jsonDuration) IsZero() bool { return d == 0 }

func (d jsonDuration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *jsonDuration) UnmarshalJSON(data []byte) error {
	var ms float64
	if json.Unmarshal(data, &ms) == nil {
		*d = jsonDuration(ms * float64(time.Millisecond))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s: write milliseconds or text such as \"50ms\"", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q: %w; write milliseconds or text such as \"50ms\"", text, err)
	}
	*d = jsonDuration(parsed)
	return nil
}
