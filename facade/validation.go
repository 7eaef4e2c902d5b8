package facade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// WithValidation compares the arguments of each tool call with the tool's input schema
// before anything is sent. Arguments that do not match fail with ErrInvalid; errors.As
// finds the [ArgumentError], and Hint names parameters that are similar to an unknown one.
// [Client.CallToolForModel] gives both to the model.
//
// These rules are compared: types, enum and const, required and unknown names, items, the bounds of
// numbers, lengths and lists, patterns, all parts of allOf, and the alternatives of anyOf and
// oneOf, of which at least one must match. Everything else is left to the server, so that valid
// arguments are never refused: "not", "if", "contains", what depends on other names, formats,
// regular expressions that Go reads in another way, steps such as 0.01 that have no exact value,
// numbers of more than 19 digits, and keywords whose values the standard does not allow.
//
// A schema may refer to itself. A reference to a file or a URL is never opened. A part that cannot
// be used, such as that reference or "$dynamicRef", is not compared. A whole schema is not compared
// if it is not JSON, is longer than 1 MiB, or takes more than about 4,000,000 steps (20 ms). Such
// calls are sent: the status of the server has a warning, and the log a line for the tool.
//
// Schemas are not cached: each call reads its schema, at about 5 µs a kilobyte. Only compiled
// regular expressions are kept, up to 4 MiB for each client.
//
// Default: arguments are not compared, which costs nothing; the server does it.
func WithValidation() Option { return func(o *options) { o.validation = true } }

// ArgumentError is the Cause of an ErrInvalid of [WithValidation]. It contains no values
// of arguments.
type ArgumentError struct {
	// Path is the argument that breaks the rule, as in "filters[0].name"; "" is all
	// arguments together.
	Path string
	// Rule is the keyword of JSON Schema that is broken, as in "required" and "type".
	Rule string
	// Reason says what is wrong.
	Reason string
}

// Error implements error, as in `argument count: it must be an integer, and is a string
// (type)`.
func (e *ArgumentError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("arguments: %s (%s)", e.Reason, e.Rule)
	}
	return fmt.Sprintf("argument %s: %s (%s)", e.Path, e.Reason, e.Rule)
}

// validator compares arguments with schemas, and remembers what it could not compare.
type validator struct {
	checker argcheck.Checker
	mu      sync.Mutex
	servers map[string]*uncheckedTools // by name, only those that have any; guarded by mu
}

// uncheckedTools are the tools of one catalog whose arguments were not compared, or not in
// all.
type uncheckedTools struct {
	catalog *catalog.Catalog
	tools   []string // at most catalog.WarningExamples, by the server's own name
	// warnings has one for each of tools, and one more for any others.
	warnings []mcpvisor.Warning
}

// checkArguments compares the arguments of a call, a JSON object, with the schema of the
// tool. A tool that the server does not list at the moment is not compared.
func (c *Client) checkArguments(ctx context.Context, v *actors.View, name string, args []byte, strict bool) error {
	tool, listed := v.Catalog.Tool(name)
	if !listed || tool.Definition == nil {
		return nil
	}
	schema, ok := tool.Definition.InputSchema.(json.RawMessage)
	if !ok {
		return nil
	}
	r := c.validator.checker.Check(ctx, schema, args, argcheck.Options{Strict: strict})
	if r.Unchecked != "" && c.validator.note(c.rt.Snapshot(), v, name, r.Unchecked) {
		c.opts.logger.Warn().Str("server", v.Name).Str("tool", name).Str("reason", r.Unchecked).
			Msg("arguments of this tool are not validated, or not in all")
	}
	if len(r.Violations) == 0 {
		return nil
	}
	broken := r.Violations[0]
	subject, found := "it ", ""
	if broken.Path == "" {
		subject = "they "
	} else if broken.Found != "" {
		found = ", and is " + broken.Found
	}
	e := &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
		Cause: &ArgumentError{Path: broken.Path, Rule: broken.Rule, Reason: subject + broken.Reason + found}}
	if len(broken.Similar) > 0 {
		e.Hint = didYouMean(broken.Similar, "")
	}
	return e
}

// note remembers a tool whose arguments were not compared. It reports false if that is
// known.
func (d *validator) note(s *actors.Snapshot, v *actors.View, tool, why string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.servers[v.Name]
	if of == nil || of.catalog != v.Catalog {
		if d.servers == nil {
			d.servers = map[string]*uncheckedTools{}
		}
		for name := range d.servers { // unregistered meanwhile
			if s.Server(name) == nil {
				delete(d.servers, name)
			}
		}
		of = &uncheckedTools{catalog: v.Catalog}
		d.servers[v.Name] = of
	}
	switch {
	case slices.Contains(of.tools, tool) || len(of.warnings) > catalog.WarningExamples:
		return false
	case len(of.tools) == catalog.WarningExamples:
		of.warnings = append(of.warnings, mcpvisor.Warning{List: catalog.NameTools, Text: "arguments of more tools are not validated, or not in all"})
	default:
		of.tools = append(of.tools, strings.Clone(tool))
		of.warnings = append(of.warnings, mcpvisor.Warning{List: catalog.NameTools,
			Text: fmt.Sprintf("arguments of %.100q are not validated, or not in all: %s", tool, display.Line(why))})
	}
	return true
}

// warnings returns what was not compared of the tools of a server.
func (d *validator) warnings(v *actors.View) []mcpvisor.Warning {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.servers[v.Name]; of != nil && of.catalog == v.Catalog && v.Catalog != nil {
		return of.warnings
	}
	return nil
}

// forget drops what is known of a server.
func (d *validator) forget(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.servers, server)
}
