package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// NameInstructions names the instructions in a finding and a warning.
const NameInstructions = "instructions"

// Guarded returns the catalog without what a guard withholds, and with a warning for each finding. read are the lists that c
// has; what it returns for others does not count. c is unchanged. Guarded of nil is nil.
func (c *Catalog) Guarded(check func(mcpvisor.Offer) ([]mcpvisor.Finding, error), instructions string, read Lists) *Catalog {
	if c == nil {
		return nil
	}
	next := *c
	next.Warnings = slices.Clone(c.Warnings)
	next.WithheldTools, next.WithheldPrompts, next.WithheldTemplates, next.NoInstructions = nil, nil, nil, false
	offer := mcpvisor.Offer{Instructions: instructions}
	if read&ListTools != 0 {
		offer.Tools = entries(c.Tools, func(t *mcpvisor.Tool) (string, json.RawMessage) { return t.OriginalName, t.Raw })
	}
	if read&ListPrompts != 0 {
		offer.Prompts = entries(c.Prompts, func(p *mcpvisor.Prompt) (string, json.RawMessage) { return p.OriginalName, p.Raw })
	}
	if read&ListResources != 0 {
		offer.Templates = entries(c.Templates, func(r *mcpvisor.ResourceTemplate) (string, json.RawMessage) { return r.URITemplate, r.Raw })
	}
	findings, err := check(offer)
	if err != nil {
		for _, list := range []string{NameTools, NamePrompts, NameTemplates, NameInstructions} {
			findings = append(findings, mcpvisor.Finding{List: list, Text: fmt.Sprintf("all are withheld: %v", err)})
		}
	}
	withheld := map[[2]string]string{} // texts, by list and name
	said := map[string]int{}
	for _, f := range findings {
		if said[f.List]++; said[f.List] <= WarningExamples {
			next.Warnings = append(next.Warnings, mcpvisor.Warning{List: f.List, Text: display.Line(f.Text), Guarded: true})
		}
		if !f.Listed {
			withheld[[2]string{f.List, f.Name}] = f.Text
		}
	}
	for list, n := range said {
		if more := n - WarningExamples; more > 0 {
			next.Warnings = append(next.Warnings, mcpvisor.Warning{List: list, Text: fmt.Sprintf("%d more findings", more), Guarded: true})
		}
	}
	if len(withheld) == 0 {
		return &next
	}
	_, next.NoInstructions = withheld[[2]string{NameInstructions, ""}]
	next.Tools, next.WithheldTools = unwithheld(c.Tools, withheld, NameTools, func(t *mcpvisor.Tool) string { return t.OriginalName })
	next.Prompts, next.WithheldPrompts = unwithheld(c.Prompts, withheld, NamePrompts, func(p *mcpvisor.Prompt) string { return p.OriginalName })
	next.Templates, next.WithheldTemplates = unwithheld(c.Templates, withheld, NameTemplates, func(r *mcpvisor.ResourceTemplate) string { return r.URITemplate })
	next.index()
	next.Version = versions.Add(1)
	return &next
}

// Withheld returns the finding about a prompt, or a resource template, that a guard withholds; empty if none does. A nil catalog
// has none.
func (c *Catalog) Withheld(prompt, template string) string {
	if c == nil {
		return ""
	}
	return cmp.Or(c.WithheldPrompts[prompt], c.WithheldTemplates[template])
}

// entries makes the list of an offer, which is not nil.
func entries[T any](items []T, of func(*T) (string, json.RawMessage)) []mcpvisor.OfferEntry {
	list := make([]mcpvisor.OfferEntry, len(items))
	for i := range items {
		list[i].Name, list[i].Raw = of(&items[i])
	}
	return list
}

// unwithheld returns the items that are not withheld, and the findings about the others.
func unwithheld[T any](items []T, withheld map[[2]string]string, list string, nameOf func(*T) string) (kept []T, not map[string]string) {
	all, none := withheld[[2]string{list, ""}]
	for i := range items {
		name := nameOf(&items[i])
		text, out := withheld[[2]string{list, name}]
		switch {
		case none && !out:
			text = all
			fallthrough
		case out:
			if not == nil {
				not = map[string]string{}
			}
			not[strings.Clone(name)] = text
		default:
			kept = append(kept, items[i])
		}
	}
	return slices.Clip(kept), not
}
