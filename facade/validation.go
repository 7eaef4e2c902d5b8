package facade

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// WithValidation compares the arguments of each tool call with the tool's input schema
// before anything is sent. Arguments that do not match fail with ErrInvalid; errors.As
// finds the [ArgumentError], and Hint names parameters that are similar to an unknown one.
// [Client.CallToolForModel] gives both to the model.
//
// A schema is compiled at its first call, once for each time that the server lists it. It
// may refer to itself; a reference to a file or a URL is never opened. A schema that
// cannot be used (such a reference, "$dynamicRef", invalid JSON) is logged once, and does
// not block calls. The same holds for arguments whose comparison would take too long. Some
// keywords are not compared, so that nothing is refused that the schema allows: formats,
// regular expressions that Go cannot compile or that are long, uniqueItems, unevaluated…,
// steps such as 0.01 that have no exact value, and values that are not as the standard wants.
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

// Error implements error, as in `argument count: it must be integer, and is string (type)`.
func (e *ArgumentError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("arguments: %s (%s)", e.Reason, e.Rule)
	}
	return fmt.Sprintf("argument %s: %s (%s)", e.Path, e.Reason, e.Rule)
}

// validator holds the compiled schemas of the servers.
type validator struct {
	mu      sync.Mutex
	servers map[string]*serverSchemas // by name; guarded by mu
}

// serverSchemas are the compiled schemas of one catalog. A server that lists its tools
// again has another one.
type serverSchemas struct {
	catalog *catalog.Catalog
	mu      sync.Mutex
	tools   map[string]*toolSchema // by the server's own name; guarded by mu
}

// toolSchema is the schema of one tool. It is compiled at most once.
type toolSchema struct {
	once   sync.Once
	schema *argcheck.Schema // nil if it cannot be used
}

// checkArguments compares the arguments of a call with the schema of the tool. A tool that
// the server does not list at the moment is not compared.
func (c *Client) checkArguments(v *actors.View, name string, args toolArguments) error {
	tool, listed := v.Catalog.Tool(name)
	if !listed || tool.Definition == nil {
		return nil
	}
	raw, err := args.append(nil)
	if err != nil {
		return err
	}
	s := c.validator.schema(c, v, tool)
	if s == nil {
		return nil
	}
	broken := s.Check(raw)
	if broken == nil {
		return nil
	}
	e := &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
		Cause: &ArgumentError{Path: broken.Path, Rule: broken.Rule, Reason: broken.Reason}}
	if len(broken.Similar) > 0 {
		e.Hint = "did you mean " + strings.Join(broken.Similar, ", ") + "?"
	}
	return e
}

// schema returns the compiled schema of a listed tool; nil if it cannot be used.
func (d *validator) schema(c *Client, v *actors.View, t mcpvisor.Tool) *argcheck.Schema {
	d.mu.Lock()
	of := d.servers[v.Name]
	if of == nil || of.catalog != v.Catalog {
		if d.servers == nil {
			d.servers = map[string]*serverSchemas{}
		}
		of = &serverSchemas{catalog: v.Catalog, tools: map[string]*toolSchema{}}
		s := c.rt.Snapshot()
		for name := range d.servers { // unregistered meanwhile
			if s.Server(name) == nil {
				delete(d.servers, name)
			}
		}
		d.servers[v.Name] = of
	}
	d.mu.Unlock()

	of.mu.Lock()
	one := of.tools[t.OriginalName]
	if one == nil {
		one = &toolSchema{}
		of.tools[t.OriginalName] = one
	}
	of.mu.Unlock()

	one.once.Do(func() { one.schema = c.compileSchema(t) })
	return one.schema
}

// forget drops the schemas of a server.
func (d *validator) forget(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.servers, server)
}

// compileSchema compiles the schema of a tool, and logs why it cannot be used.
func (c *Client) compileSchema(t mcpvisor.Tool) *argcheck.Schema {
	raw, ok := t.Definition.InputSchema.(json.RawMessage)
	if !ok {
		return nil
	}
	s, err := argcheck.Compile(raw)
	if err != nil {
		c.opts.logger.Warn().Str("server", t.Server).Str("tool", t.OriginalName).Err(err).
			Msg("arguments of this tool are not validated: its input schema cannot be used")
		return nil
	}
	return s
}
