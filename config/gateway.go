package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Gateway has the values of "gateway" at the top of a file, about the MCP server that offers all servers
// (package gateway, `mcpvisor run --mcp`, `mcpvisor stdio`).
type Gateway struct {
	settings.Settings
	// Extensions are those that servers are told of (facade.WithExtensions), for a program that makes its client with
	// them. nil: the file does not say.
	Extensions map[string]json.RawMessage
	// Broken: a problem says why none of this may be used.
	Broken bool
}

// serverPattern is a pattern of servers without * and ?, to be checked when all entries are known.
type serverPattern struct {
	key, name string
	at        *hujson.Value
	text      *text
}

// readGateway reads "gateway" at the top of the present text, unless a later text has one.
func (p *parser) readGateway(later []*text) {
	for _, t := range later {
		if t.gateway != nil {
			return
		}
	}
	v := p.text.gateway
	if v == nil {
		return
	}
	e := &entry{p: p, key: "gateway", strict: true, gateway: &Gateway{Settings: settings.Settings{Names: &settings.Names{HostPrefix: settings.DefaultHostPrefix}}}}
	p.secrets = nil
	e.readObject(v, `{"profiles": {"review": {"tools": ["read_*"]}}}`, gatewayRows)
	if p.text.gateways > 1 {
		e.fail(v, "\"gateway\" is there twice; remove one of them")
	}
	e.gateway.Broken = e.broken
	p.file.Gateway, p.gateway = e.gateway, e
}

// finishGateway checks what needs all entries to be known.
func (p *parser) finishGateway() {
	e := p.gateway
	if e == nil {
		return
	}
	names := p.servers()
	for _, pattern := range e.serverPatterns {
		if !slices.Contains(names, pattern.name) {
			p.text = pattern.text
			p.addProblem(pattern.at, "", SeverityWarning, "no server is called %q, which %q names; %s", pattern.name, pattern.key, didYouMean(pattern.name, names, "remove it, or add the server"))
		}
	}
	if e.gateway.Names.Prefix == settings.PrefixNever {
		e.checkCollisions()
	}
	e.gateway.Broken = e.broken
}

// checkCollisions reports tools that would share a name without the names of their servers, as far
// as the entries say which tools there are.
func (e *entry) checkCollisions() {
	first := map[string]string{} // the server that has the tool
	for _, s := range e.p.file.Servers {
		if s.Disabled || s.Skipped {
			continue
		}
		named := slices.Clone(s.Spec.Tools.Allow)
		for _, setting := range s.Spec.ToolSettings {
			if setting.Name != "" {
				named = append(named, setting.Name)
			}
		}
		slices.Sort(named)
		for _, tool := range named {
			if strings.ContainsAny(tool, "*?") || !s.Spec.Tools.Allows(tool) {
				continue
			}
			other, again := first[tool]
			if !again {
				first[tool] = s.Spec.Name
				continue
			}
			if other != s.Spec.Name {
				e.p.text = e.prefixText
				e.fail(e.prefixAt, "the servers %q and %q both offer the tool %q (%s), which without their names is one; hide it in one of them, or write \"conflict\"", other, s.Spec.Name, tool, s.Spec.Origin)
			}
		}
	}
}

// readPrefix reads "names.prefix" of the gateway.
func (e *entry) readPrefix(v *hujson.Value) {
	readChoice(e, v, &e.gateway.Names.Prefix, settings.PrefixAlways, settings.PrefixOnConflict, settings.PrefixNever)
	e.prefixAt, e.prefixText = v, e.p.text
}

// maxHostPrefix is how much of a host's prefix counts, in bytes.
const maxHostPrefix = 40

func (e *entry) readHostPrefix(v *hujson.Value) {
	text, ok := e.readString(v)
	if ok && len(text) > maxHostPrefix {
		e.fail(v, "%q has %d bytes; use at most %d", e.key, len(text), maxHostPrefix)
	}
	e.gateway.Names.HostPrefix = text
}

// readOnDown reads "keep", "withdraw" or how long entries are kept.
func (e *entry) readOnDown(v *hujson.Value, into **settings.OnDown) {
	policy := settings.Keep
	switch lit, _ := literal(v, '"'); {
	case lit != nil && lit.String() == "keep":
	case lit != nil && lit.String() == "withdraw":
		policy = settings.Withdraw
	default:
		grace, ok := durationOf(v)
		if !ok || grace < 0 {
			e.failType(v, "\"keep\", \"withdraw\" or a duration", `"keep", "withdraw" or "30s"`)
			return
		}
		policy = settings.OnDown(grace)
	}
	*into = &policy
}

// readProfiles reads the profiles of the gateway.
func (e *entry) readProfiles(v *hujson.Value) {
	e.gateway.Profiles = readMapOf(e, v, "an object", `{"review": {"tools": ["read_*"]}}`, func(m *hujson.ObjectMember) settings.Profile {
		if name := memberName(m); name == "" || strings.ContainsAny(name, "/?#%, \t\r\n") {
			e.fail(&m.Name, "the name of %q cannot be part of a path; use letters, digits, - and _", e.key)
		}
		e.profile = &settings.Profile{}
		e.readObject(&m.Value, `{"tools": ["read_*"]}`, profileRows)
		return *e.profile
	})
}

// maxPattern is the longest pattern of a profile, in bytes.
const maxPattern = 1000

// readFilter reads a list of patterns that are offered, or an object of allow and deny.
func (e *entry) readFilter(v *hujson.Value, filter *mcpvisor.ToolFilter, never string) {
	if _, ok := v.Value.(*hujson.Object); !ok {
		e.readPatterns(v, never, &filter.Allow)
		if len(filter.Allow) == 0 && !e.broken { // an empty Allow would allow all
			filter.Deny = []string{"*"}
		}
		return
	}
	e.readObject(v, `["read_*"]`, []row{
		{Key: configkeys.Key{Name: "allow"}, read: func(e *entry, v *hujson.Value) {
			if e.readPatterns(v, never, &filter.Allow); len(filter.Allow) == 0 && !e.broken {
				filter.Deny = append(filter.Deny, "*")
			}
		}},
		{Key: configkeys.Key{Name: "deny"}, read: func(e *entry, v *hujson.Value) {
			var deny []string
			e.readPatterns(v, never, &deny)
			filter.Deny = append(filter.Deny, deny...)
		}},
	})
}

// readPatterns reads a list of patterns. never has the characters that no pattern may have.
func (e *entry) readPatterns(v *hujson.Value, never string, into *[]string) {
	*into = e.readList(v)
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		return
	}
	for i, pattern := range *into {
		e.within(fmt.Sprintf("[%d]", i), func() {
			at := &list.Elements[i]
			bad := strings.IndexAny(pattern, never)
			switch {
			case pattern == "" && e.broken: // it could not be read
			case pattern == "":
				e.fail(at, "the pattern %q is empty and matches nothing; remove it, or write \"*\" for all", e.key)
			case len(pattern) > maxPattern:
				e.fail(at, "the pattern %q has %d bytes; use at most %d", e.key, len(pattern), maxPattern)
			case bad >= 0 && pattern[bad] == '/':
				e.fail(at, "the pattern %q of %q has a slash, and names of servers have none; put it into \"tools\", as in \"files/read_*\"", pattern, e.key)
			case bad >= 0:
				e.fail(at, "the pattern %q of %q has a %q, which would stand for itself; only * and ? are special", pattern, e.key, pattern[bad])
			case strings.Contains(never, "/") && !strings.ContainsAny(pattern, "*?"):
				e.serverPatterns = append(e.serverPatterns, serverPattern{e.key, pattern, at, e.p.text})
			}
		})
	}
}

// readExtensions reads the extensions of MCP that are declared to servers.
func (e *entry) readExtensions(v *hujson.Value) {
	text := plainJSON(v)
	var read map[string]map[string]any
	err := json.Unmarshal(text, &read)
	for name, settings := range read {
		if settings == nil || !strings.Contains(name, "/") || name == task.Extension {
			err = errors.New(name)
		}
	}
	if err != nil || read == nil {
		e.failType(v, "an object with the settings of each extension, an object, by its name with a slash, other than that for tasks", `{"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}`)
		return
	}
	e.gateway.Extensions = make(map[string]json.RawMessage, len(read))
	_ = json.Unmarshal(text, &e.gateway.Extensions) // it was read before
}

// readSites reads a list of web sites or hosts.
func (e *entry) readSites(v *hujson.Value, parse func(string) (string, error)) []string {
	all := e.readList(v)
	for i, text := range all {
		if _, err := parse(text); err != nil && !e.broken { // otherwise it may not have been read
			e.fail(&v.Value.(*hujson.Array).Elements[i], "in %q: %v", e.key, err) //nolint:forcetypeassert // readList has read it
		}
	}
	return all
}

// readHint reads what an annotation must say.
func (e *entry) readHint(v *hujson.Value, into **bool) {
	var hint bool
	e.readBool(v, &hint)
	*into = &hint
}
