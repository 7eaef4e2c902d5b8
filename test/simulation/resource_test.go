package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
)

// subscribes reports whether a peer that follows wants to know of changes of a server's resource.
func (p *peer) subscribes(server int) bool {
	if sup := p.w.supervision; sup != nil && sup.rests[server] && !sup.follows {
		return false
	}
	return (p.n+1)&(server+1) != 0
}

// uris are those that the peer subscribes to.
func (p *peer) uris() (all []string) {
	for i, s := range p.w.servers {
		if p.subscribes(i) {
			all = append(all, s.uri())
		}
	}
	return all
}

// subscribe subscribes on a session, as clients before 2026-07-28 do. It tries again while a server is down; one that is
// hidden, it tries when the lists have changed.
func (p *peer) subscribe(ctx context.Context, session string) {
	for _, uri := range p.uris() {
		for ctx.Err() == nil {
			a, _, err := p.post(ctx, p.id(), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri), "", session)
			if err != nil || a.Error == nil || a.Error.Code == -32602 || a.Error.Code == -32002 {
				break
			}
			sleep(ctx, time.Second)
		}
	}
}

func (p *peer) id() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextID++
	return p.nextID
}

// updated takes the news that a resource has changed.
func (p *peer) updated(ctx context.Context, uri string) {
	for i, s := range p.w.servers {
		if s.uri() != uri {
			continue
		}
		if !p.subscribes(i) {
			p.w.fail("peer %d is told that %s has changed, and has not subscribed to it", p.n, uri)
		}
		p.w.mu.Lock()
		counts["updates of resources"]++
		if p.w.alwaysHidden(s.name, time.Now().Add(-time.Second), time.Now()) {
			p.w.failLocked("peer %d is told that %s has changed, which is hidden", p.n, uri)
		}
		p.told[uri] = time.Now()
		p.w.mu.Unlock()
		p.w.closes.Go(func() { _ = p.read(ctx, i) })
	}
}

// read reads the resource of a server, and checks that the value is one that it had meanwhile.
func (p *peer) read(ctx context.Context, server int) error {
	session, err := p.openSession(ctx)
	if err != nil {
		return err
	}
	meta := ""
	if p.modern() {
		meta = modernMeta
	}
	s := p.w.servers[server]
	before, began := s.current(), time.Now()
	a, _, err := p.post(ctx, p.id(), "resources/read", fmt.Sprintf(`{"uri":%q,"_meta":{%s}}`, s.uri(), meta), s.uri(), session)
	if err != nil {
		return err
	}
	if a.Error != nil {
		return &rpcError{a.Error.Code, a.Error.Message}
	}
	var result struct {
		Contents []struct{ URI, Text string }
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || len(result.Contents) != 1 || result.Contents[0].URI != s.uri() {
		p.w.fail("peer %d read %s and got %s", p.n, s.uri(), a.Result)
		return errors.New("a result of another form")
	}
	p.w.mu.Lock()
	hidden := p.w.alwaysHidden(s.name, began, time.Now())
	p.w.mu.Unlock()
	if hidden {
		p.w.fail("peer %d read %s, which is hidden", p.n, s.uri())
	}
	s.check(fmt.Sprintf("peer %d", p.n), before, result.Contents[0].Text)
	return nil
}

// read reads the resource of a server through the host.
func (w *world) read(ctx context.Context, c *facade.Client, server int) error {
	s := w.servers[server]
	before := s.current()
	result, err := c.ReadResource(ctx, s.name, s.uri())
	if err == nil {
		s.check("the host", before, result.Contents[0].Text)
	}
	return err
}

func (s *server) current() int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.value
}

func (s *server) check(who string, before int, text string) {
	after := s.current()
	var got int
	if _, err := fmt.Sscanf(strings.TrimPrefix(text, s.name), "=%d", &got); err != nil || !strings.HasPrefix(text, s.name) || got < before || got > after {
		s.w.fail("%s read %q of %s, which had the values %d to %d meanwhile", who, text, s.uri(), before, after)
	}
}

// settleResources changes each resource: who has subscribed is told.
func (w *world) settleResources() {
	changed := time.Now()
	for _, s := range w.servers {
		s.touch()
	}
	time.Sleep(5 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.peers[:4] {
		for _, uri := range p.uris() {
			if p.told[uri].Before(changed) {
				w.failLocked("peer %d follows %s, which has changed, and is not told", p.n, uri)
			}
		}
	}
}
