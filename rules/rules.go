package rules

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

// Action is what a rule does with a call.
type Action string

// Actions of a rule.
const (
	// Allow sends the call.
	Allow Action = "allow"
	// Ask sends the call if the asker approves it.
	Ask Action = "ask"
	// Deny refuses the call.
	Deny Action = "deny"
)

// Rule says what is done with the calls that it matches: those that match all of its conditions. In a pattern "*" matches
// any text, the empty one included, and "?" one character. An empty pattern matches everything.
type Rule struct {
	// Principal is a pattern for the authenticated client of a gateway; calls of the program itself, and of clients
	// without a name, have an empty one.
	Principal string
	// Server and Tool are patterns for the name of the server, and for the name by which the server's tool is listed,
	// without the server.
	Server, Tool string
	// Annotations are conditions on what the server says of the tool.
	Annotations Annotations
	// PerMinute bounds the calls that the rule allows, or asks about, in a minute: of each principal by itself, and of all
	// tools that the rule matches together. A call beyond it is refused with mcpvisor.ErrOverloaded, which says when to
	// call again. Further attempts to send one call count once. 0: no bound.
	PerMinute int
	// Do is what is done. It must be set.
	Do Action
	// Source says where the rule is written, as in ".mcp.json:12". Errors repeat it.
	Source string
}

// Annotations are conditions on the annotations of a tool; nil for none. A server chooses its annotations, so they count only
// where a catalog guard withholds what was not approved (see [Compile]). If they do not count, or the tool is not known, a
// rule with such a condition matches if it asks or denies, and does not match if it allows.
type Annotations struct {
	// ReadOnly, Destructive, Idempotent and OpenWorld are compared with the hints of that name. A hint that the server does
	// not give is false, true, false and true (MCP, schema, ToolAnnotations); a tool that is read only is not destructive.
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// IsZero reports whether there is no condition.
func (a Annotations) IsZero() bool { return a == Annotations{} }

// hints are the annotations of a tool, with the defaults of the specification.
type hints struct{ readOnly, destructive, idempotent, openWorld bool }

func hintsOf(t *mcp.Tool) hints {
	h := hints{destructive: true, openWorld: true}
	if t == nil || t.Annotations == nil {
		return h
	}
	a := t.Annotations
	h.readOnly, h.destructive, h.idempotent = a.ReadOnlyHint, !a.ReadOnlyHint, a.IdempotentHint
	if a.DestructiveHint != nil {
		h.destructive = *a.DestructiveHint
	}
	if a.OpenWorldHint != nil {
		h.openWorld = *a.OpenWorldHint
	}
	return h
}

func (a Annotations) match(h hints) bool {
	is := func(wanted *bool, hint bool) bool { return wanted == nil || *wanted == hint }
	return is(a.ReadOnly, h.readOnly) && is(a.Destructive, h.destructive) && is(a.Idempotent, h.idempotent) && is(a.OpenWorld, h.openWorld)
}

// MaxRules is the most rules of a set, MaxPatternBytes the length of the longest pattern, and MaxPerMinute the largest bound.
const (
	MaxRules        = 256
	MaxPatternBytes = 256
	MaxPerMinute    = 1_000_000
)

// Validate returns what is wrong with a rule; nil if it can be used.
func (r *Rule) Validate() error {
	switch r.Do {
	case Allow, Ask, Deny:
	default:
		return fmt.Errorf("the rule does %.40q; it is one of %q, %q and %q", string(r.Do), Allow, Ask, Deny)
	}
	switch {
	case r.PerMinute < 0 || r.PerMinute > MaxPerMinute:
		return fmt.Errorf("%d calls a minute are no bound; it is between 1 and %d, or 0 for none", r.PerMinute, MaxPerMinute)
	case r.PerMinute > 0 && r.Do == Deny:
		return fmt.Errorf("the rule denies all calls, so there is nothing to count in a minute; use %q or %q", Allow, Ask)
	}
	for _, p := range []struct{ name, text string }{{"principal", r.Principal}, {"server", r.Server}, {"tool", r.Tool}} {
		if len(p.text) > MaxPatternBytes {
			return fmt.Errorf("the pattern for %s has %d bytes; at most %d are accepted: use *", p.name, len(p.text), MaxPatternBytes)
		}
	}
	return nil
}

// Set is a list of rules. It does not change, but it counts calls for its bounds. The first rule that matches a call counts; a call that none matches is allowed.
type Set struct {
	rules   []Rule
	limits  []*limit // of each rule; nil for one without a bound
	trusted bool
}

// Compile checks rules. trusted says that annotations count: a catalog guard withholds tools that were not approved
// (facade.WithCatalogGuard), such as a lock.Guard that enforces. The set keeps no reference to rules.
func Compile(rules []Rule, trusted bool) (*Set, error) {
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("there are %d rules; at most %d are accepted: use patterns", len(rules), MaxRules)
	}
	made := &Set{rules: append([]Rule(nil), rules...), limits: make([]*limit, len(rules)), trusted: trusted}
	for i := range rules {
		if err := rules[i].Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if n := rules[i].PerMinute; n > 0 {
			made.limits[i] = &limit{perMinute: n}
		}
	}
	return made, nil
}

// Match returns the first rule that matches a call, and its number from 1; 0 if the call is allowed because none does.
func (s *Set) Match(call *mcpvisor.GuardedCall) (rule Rule, number int) {
	for i := range s.rules {
		if r := &s.rules[i]; matches(r.Tool, call.Tool) && matches(r.Server, call.Server) && matches(r.Principal, call.Principal) && s.annotated(r, call.Definition) {
			return *r, i + 1
		}
	}
	return Rule{Do: Allow}, 0
}

func (s *Set) annotated(r *Rule, t *mcp.Tool) bool {
	switch {
	case r.Annotations.IsZero():
		return true
	case !s.trusted || t == nil:
		return r.Do != Allow
	}
	return r.Annotations.match(hintsOf(t))
}

func matches(glob, text string) bool { return glob == "" || pattern.Glob(glob, text) }
