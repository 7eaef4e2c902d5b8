//go:build linux

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// listed is what a client lists at about one moment, by server.
type listed map[string]*serverLists

// serverLists is what is listed of one server.
type serverLists struct {
	text [4]strings.Builder // of tools, resources, templates, prompts
	// starts are the numbers of the incarnations that listed it, each once.
	starts []string
	// variants are the variants of the specification, each once.
	variants []string
}

var listNames = [4]string{"tools", "resources", "templates", "prompts"}

// add adds an entry to one of the lists of a server. The number of the incarnation and the
// variant are not part of the text.
func (l listed) add(server string, list int, parts ...string) {
	s := l[server]
	if s == nil {
		s = &serverLists{}
		l[server] = s
	}
	once := func(all *[]string, one string) {
		if one != "" && !slices.Contains(*all, one) {
			*all = append(*all, one)
		}
	}
	for _, text := range parts {
		text, after, _ := strings.Cut(text, markText)
		once(&s.starts, strings.TrimSuffix(after, "."))
		text, variant, _ := strings.Cut(text, variantText)
		once(&s.variants, variant)
		s.text[list].WriteString(text)
		s.text[list].WriteByte('|')
	}
	s.text[list].WriteByte('\n')
}

// of returns what is listed of one server.
func (l listed) of(server string) (texts [4]string, starts []string) {
	s := l[server]
	if s == nil {
		return texts, nil
	}
	for i := range s.text {
		texts[i] = s.text[i].String()
	}
	return texts, s.starts
}

// list reads all four lists, without addedTool. They may be those of different moments.
func (s *storm) list() listed {
	l := listed{}
	for _, t := range s.c.Tools() {
		if t.OriginalName != addedTool {
			l.add(t.Server, 0, t.OriginalName, t.Definition.Description, fmt.Sprintf("%s", t.Definition.InputSchema))
		}
	}
	for _, r := range s.c.Resources() {
		l.add(r.Server, 1, r.URI, r.Definition.Name, r.Definition.MIMEType)
	}
	for _, t := range s.c.ResourceTemplates() {
		l.add(t.Server, 2, t.URITemplate, t.Definition.Name)
	}
	for _, p := range s.c.Prompts() {
		l.add(p.Server, 3, p.OriginalName, p.Definition.Description, strconv.Itoa(len(p.Definition.Arguments)))
	}
	return l
}

// moment identifies the state of a server: between two equal moments it was in that state all
// the time.
type moment struct {
	gen, epoch uint64
	state      supervisor.State
	timesReady int64
}

// moments returns the state of each registered server.
func (s *storm) moments() map[string]moment {
	all := map[string]moment{}
	for _, st := range s.c.Status() {
		all[st.Name] = moment{st.Gen, st.Epoch, st.State, st.Totals.Ready}
	}
	return all
}

// checkListing reads the lists until ctx ends. Each list of a server is whole or empty. A ready
// server lists everything, and all of it comes from its one incarnation; a server that is down
// lists nothing; a server without injected faults always lists everything.
func (s *storm) checkListing(ctx context.Context, _ *rand.Rand) {
	for ctx.Err() == nil {
		before := s.moments()
		lists := s.list()
		after := s.moments()
		for _, target := range s.targets {
			texts, starts := lists.of(target.name())
			s.checkListed(target, texts, starts, before[target.name()], after[target.name()])
		}
		pause(ctx, 3*time.Millisecond)
	}
}

func (s *storm) checkListed(t *target, texts [4]string, starts []string, before, after moment) {
	steady, ready := before == after && before.gen != 0, before.state == supervisor.StateReady
	for i, text := range texts {
		// With a standby the lists are gone for a moment if the server in service ends before
		// the standby is known to be ready, and come back with the takeover.
		mustList := t.faultFree || steady && ready && !t.spec.Standby
		if text != t.lists[i] && (text != "" || mustList) {
			s.recordViolation("%s (%s) lists the %s %q instead of %q", t.name(), after.state, listNames[i], text, t.lists[i])
			return
		}
	}
	switch {
	case steady && !ready && texts != [4]string{}:
		s.recordViolation("%s is %s, and its lists are not empty", t.name(), before.state)
	case steady && ready && t.marked && len(starts) == 0 && t.spec.Standby:
	case steady && ready && t.marked && len(starts) != 1:
		s.recordViolation("epoch %d of %s has lists of the incarnations %v", before.epoch, t.name(), starts)
	case steady && ready && t.marked:
		s.recordStart(t.name(), before, starts[0])
	}
}

// incarnationKey names one incarnation.
type incarnationKey struct {
	server     string
	gen, epoch uint64
}

// recordStart records which incarnation the lists of an epoch come from. Each epoch has its own
// lists, and later epochs those of later incarnations.
func (s *storm) recordStart(server string, at moment, text string) {
	start, err := strconv.Atoi(text)
	if err != nil {
		s.recordViolation("%s lists %q as its incarnation", server, text)
		return
	}
	key := incarnationKey{server, at.gen, at.epoch}
	s.mu.Lock()
	known, seen := s.starts[key]
	last := s.lastStart[server]
	if !seen {
		s.starts[key] = start
		s.lastStart[server] = max(start, last)
	}
	s.mu.Unlock()
	switch {
	case seen && known != start:
		s.recordViolation("gen %d, epoch %d of %s had the lists of incarnation %d and then those of %d", at.gen, at.epoch, server, known, start)
	case !seen && start <= last:
		s.recordViolation("gen %d, epoch %d of %s has the lists of incarnation %d, and an earlier one had those of %d", at.gen, at.epoch, server, start, last)
	}
}
