package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
)

// Mode says what a [Guard] does about what differs from the lock file.
type Mode string

// Modes of a guard.
const (
	// Off compares nothing.
	Off Mode = "off"
	// Warn lists everything, and warns of what differs.
	Warn Mode = "warn"
	// Enforce withholds what differs, and everything if the lock file is missing or damaged.
	Enforce Mode = "enforce"
)

// Guard is a [mcpvisor.CatalogGuard] that compares offers with a lock file. The zero value compares nothing until
// [Guard.Set]. Safe for concurrent use.
type Guard struct{ rules atomic.Pointer[rules] }

// rules are what a guard compares with; they do not change.
type rules struct {
	mode    Mode
	file    *File
	problem error                      // why there is no file
	starts  map[string]json.RawMessage // canonical
}

// Set makes the guard compare with a file from now on. problem says why a file is missing: then everything is withheld, or
// warned of. starts says what is started of each server, as [Server.Start] does; a server that it does not have is not
// compared in that. What is listed already stays so until facade.Client.Refresh, or the next start. The guard takes over
// the file.
func (g *Guard) Set(mode Mode, file *File, problem error, starts map[string]json.RawMessage) {
	if file == nil {
		file = &File{}
	}
	r := &rules{mode: mode, file: file, problem: problem, starts: map[string]json.RawMessage{}}
	for name, start := range starts {
		r.starts[name] = canonical.Append(nil, start)
	}
	g.rules.Store(r)
}

// Check implements [mcpvisor.CatalogGuard].
func (g *Guard) Check(server string, offer mcpvisor.Offer) (found []mcpvisor.Finding) {
	r := g.rules.Load()
	if r == nil || r.mode == Off {
		return nil
	}
	add := func(list, name, format string, args ...any) {
		found = append(found, mcpvisor.Finding{List: list, Name: name, Text: fmt.Sprintf(format, args...), Listed: r.mode == Warn})
	}
	if reason := r.reason(server); reason != "" {
		for _, list := range offered(offer) {
			add(list.name, "", "%s", reason)
		}
		add(instructions, "", "%s", reason)
		return found
	}
	locked := r.file.Servers[server]
	if offer.Instructions != locked.Instructions {
		add(instructions, "", "the instructions of the server differ from the lock file; see mcpvisor lock diff %s", server)
	}
	lists := locked.lists()
	for _, list := range offered(offer) {
		for _, e := range list.entries {
			was, known := lists[list.name][e.Name]
			switch {
			case !known:
				add(list.name, e.Name, "%.100q is not in the lock file; see mcpvisor lock diff %s", e.Name, server)
			case !bytes.Equal(was, canonical.Append(nil, e.Raw)):
				add(list.name, e.Name, "%.100q differs from the lock file in %s; see mcpvisor lock diff %s", e.Name, membersThatDiffer(was, e.Raw), server)
			}
		}
	}
	return found
}

// instructions is their name in a finding.
const instructions = "instructions"

type offeredList struct {
	name    string
	entries []mcpvisor.OfferEntry
}

// offered are the lists of an offer that were read.
func offered(o mcpvisor.Offer) []offeredList {
	return slices.DeleteFunc([]offeredList{{"tools", o.Tools}, {"prompts", o.Prompts}, {"resourceTemplates", o.Templates}},
		func(l offeredList) bool { return l.entries == nil })
}

// reason says why nothing of a server is approved; empty if its entries are to be compared.
func (r *rules) reason(server string) string {
	if r.problem != nil {
		return fmt.Sprintf("the lock file cannot be used: %v", r.problem)
	}
	locked := r.file.Servers[server]
	if locked == nil {
		return fmt.Sprintf("the server is not in the lock file; look at it with mcpvisor lock diff %s, and approve it with mcpvisor lock approve %s", server, server)
	}
	if start, known := r.starts[server]; known && !bytes.Equal(start, locked.Start) {
		return fmt.Sprintf("another command or address than that in the lock file is started: %s; see mcpvisor lock diff %s", membersThatDiffer(locked.Start, start), server)
	}
	return ""
}

// membersThatDiffer names the members at the top of two objects that are not equal.
func membersThatDiffer(was, is []byte) string {
	var before, now map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(is, &now) != nil {
		return "its form"
	}
	var names []string
	for name, value := range before {
		if other, has := now[name]; !has || !canonical.Equal(value, other) {
			names = append(names, name)
		}
	}
	for name := range now {
		if _, had := before[name]; !had {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	for i := range names {
		names[i] = fmt.Sprintf("%.60s", names[i])
	}
	if len(names) == 0 { // JSON readers disagree about it
		return "a member that stands twice"
	}
	return strings.Join(names, ", ")
}
