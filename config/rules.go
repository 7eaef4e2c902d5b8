package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/rules"
)

// ruleRows are the keys of a rule.
var ruleRows = []row{
	choiceRow(func(e *entry) *rules.Action { return &e.rule.Do }, configkeys.Key{
		Name: "do", Default: "none: it is required", Example: `"ask"`,
		Meaning: "What is done with the calls that match all of the other keys: they are sent, sent if a person approves, or refused."}, rules.Allow, rules.Ask, rules.Deny),
	rulePatternRow(func(e *entry) *string { return &e.rule.Principal }, configkeys.Key{
		Name: "principal", Default: "all callers", Example: `"ci"`,
		Meaning: "A pattern for the client of the gateway that calls, by the name of its token. Clients without a token and commands have an empty one, which only * matches."}),
	rulePatternRow(func(e *entry) *string { return &e.rule.Server }, configkeys.Key{
		Name: "server", Default: "all servers", Example: `"fs"`,
		Meaning: "A pattern for the server. In a pattern, * stands for any text and ? for one character."}),
	rulePatternRow(func(e *entry) *string { return &e.rule.Tool }, configkeys.Key{
		Name: "tool", Default: "all tools", Example: `"write_*"`,
		Meaning: "A pattern for the tool, by the name by which it is listed, without the server."}),
	keyRow(func(e *entry, v *hujson.Value) {
		if e.readCount(v, &e.rule.PerMinute); e.rule.PerMinute == 0 {
			e.fail(v, "%q is no bound; write a number from 1, or deny the calls", e.key)
		}
	}, configkeys.Key{
		Name: "per_minute", Type: "number", Default: "no bound", Example: `10`,
		Meaning: "The most calls that match, in a minute, of each client by itself. Further ones are refused for some time. Not with \"deny\"."}),
	objectRow(annotationRows, configkeys.Key{
		Name: "annotations", Example: `{"destructiveHint": true}`,
		Meaning: "What the annotations of the tool must say. It needs \"lock\": \"enforce\", because a server can write there what it likes."}),
}

var rulePatternRow = fieldRow("pattern", func(e *entry, v *hujson.Value, into *string) {
	text, ok := e.readString(v)
	if *into = text; ok && text == "" {
		e.fail(v, "%q is empty; remove it, or write \"*\"", e.key)
	}
})

// topKeys are the keys at the top of a file. Files of other hosts have further ones there.
var topKeys = []string{keyMCPServers, keyServers, "gateway", "groups", "inputs", "journal", "lock", "records", "rules"}

// misspelt yields the members at the top whose name is nearly key, and whose value is what key may have.
func misspelt(top *hujson.Object, key string, may func(*hujson.Value) bool) iter.Seq[*hujson.ObjectMember] {
	return func(yield func(*hujson.ObjectMember) bool) {
		for name, m := range members(top) {
			if !slices.Contains(topKeys, name) && slices.Contains(nearest.Names(name, topKeys), key) && may(&m.Value) && !yield(m) {
				return
			}
		}
	}
}

// findRules finds "rules" in the present text. Under another name they deny every call.
func (p *parser) findRules(top *hujson.Object) {
	for m := range membersNamed(top, "rules") {
		p.text.rulesAt = append(p.text.rulesAt, &m.Value)
	}
	for m := range misspelt(top, "rules", hasRule) {
		e := &entry{p: p, key: "rules", strict: true, rule: new(rules.Rule)}
		e.fail(&m.Value, "unknown key %q, whose value is a list of rules; call it \"rules\"", memberName(m))
		p.addRule(e, &m.Value)
	}
}

// hasRule reports whether a value is a list with a rule.
func hasRule(v *hujson.Value) bool {
	list, ok := v.Value.(*hujson.Array)
	return ok && slices.ContainsFunc(list.Elements, func(v hujson.Value) bool {
		object, ok := v.Value.(*hujson.Object)
		return ok && slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool { return memberName(&m) == "do" })
	})
}

// readRules reads "rules" at the top of the present text.
func (p *parser) readRules() {
	for i, v := range p.text.rulesAt {
		list, ok := v.Value.(*hujson.Array)
		if i > 0 || !ok || len(p.file.Rules)+len(list.Elements) > rules.MaxRules {
			e := &entry{p: p, key: "rules", strict: true, rule: new(rules.Rule)}
			switch {
			case i > 0:
				e.fail(v, "\"rules\" is there twice; remove one of them")
			case !ok:
				e.failType(v, "a list", `[{"tool": "write_*", "do": "ask"}]`)
			default:
				e.fail(v, "there are more than %d rules; use patterns", rules.MaxRules)
			}
			p.addRule(e, v)
			continue
		}
		for j := range list.Elements {
			p.readRule(j, &list.Elements[j])
		}
	}
}

// readRule reads one rule.
func (p *parser) readRule(index int, v *hujson.Value) {
	e := &entry{p: p, key: fmt.Sprintf("rules[%d]", index), strict: true, rule: new(rules.Rule), profile: new(settings.Profile)}
	p.secrets = nil
	e.readObject(v, `{"tool": "write_*", "do": "ask"}`, ruleRows)
	e.rule.Annotations = rules.Annotations(e.profile.Annotations)
	if object, ok := v.Value.(*hujson.Object); ok && !e.broken {
		for i := range object.Members {
			if m := &object.Members[i]; m.Value.Value.Kind() == 'n' || memberName(m) == "annotations" && e.rule.Annotations.IsZero() {
				e.fail(&m.Value, "\"%s.%s\" has no value, so the rule would match more than is meant; remove it, or give it a value", e.key, memberName(m))
			}
		}
		if err := e.rule.Validate(); err != nil && !e.broken {
			e.fail(v, "%q cannot be used: %s", e.key, err)
		}
	}
	p.addRule(e, v)
}

// addRule adds a rule that was read. A broken one denies what reaches it.
func (p *parser) addRule(e *entry, v *hujson.Value) {
	if e.broken {
		p.file.Problems[len(p.file.Problems)-1].Message += "; until then the rule denies every call that no rule before it matches"
		e.rule = &rules.Rule{Do: rules.Deny}
	}
	e.rule.Source = p.origin(v)
	p.file.Rules = append(p.file.Rules, *e.rule)
	p.rulesAt = append(p.rulesAt, place{v, p.text})
}

// finishRules checks what needs all entries, and "lock" of all files, to be known.
func (p *parser) finishRules() {
	known := p.servers()
	for i := range p.file.Rules {
		r, at := p.file.Rules[i], p.rulesAt[i]
		e := &entry{p: p, key: "rules", strict: true, rule: &r}
		p.text = at.text
		if server, isEntry := p.names[r.Server]; isEntry {
			r.Server = server
			p.file.Rules[i].Server = server
		}
		if r.Server != "" && !strings.ContainsAny(r.Server, "*?") && !slices.Contains(known, r.Server) && !p.others {
			e.fail(at.at, "no server is called %q, which a rule names; %s", r.Server, didYouMean(r.Server, known, "remove the rule, or add the server"))
		}
		if server, tool, ok := mcpvisor.SplitName(r.Tool); ok && r.Server == "" && (slices.Contains(known, server) || len(nearest.Names(server, known)) > 0) {
			e.fail(at.at, "the tool %q is looked for among names without a server; write \"server\": %q, \"tool\": %q", r.Tool, server, tool)
		}
		if !r.Annotations.IsZero() && p.file.Lock != "enforce" {
			e.fail(at.at, "a rule over annotations needs \"lock\": \"enforce\", because a server can change them; add it, or name the tools")
		}
		if e.broken {
			p.file.Problems[len(p.file.Problems)-1].Message += "; until then the rule denies every call that no rule before it matches"
			p.file.Rules[i] = rules.Rule{Do: rules.Deny, Source: r.Source}
		}
	}
}
