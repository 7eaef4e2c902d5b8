package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// settleCalls: without faults each server answers, finishes a call before it is drained, and is known to be down when it
// does not answer its probes.
func (w *world) settleCalls(ctx context.Context) {
	host := w.current()
	var all sync.WaitGroup
	for i, s := range w.servers {
		all.Go(func() {
			call := func(id, form string, delay time.Duration) {
				result, err := host.CallTool(ctx, s.name+"/do", plan{ID: id, Form: form, Delay: delay}, facade.WithWaitReady())
				if err != nil || len(result.Content) != 1 || !isOf(result.Content[0], id) {
					w.fail("the last call of %s has failed: %v", s.name, err)
				}
			}
			var calls sync.WaitGroup
			for n := range 5 { // more than one version of its specification admits at once
				calls.Go(func() { call(fmt.Sprintf("last-%d-%d", i, n), "plain", 10*time.Millisecond) })
			}
			calls.Wait()
			calls.Go(func() { call(fmt.Sprintf("drained-%d", i), "plain", time.Second) })
			calls.Go(func() { call(fmt.Sprintf("drained-task-%d", i), "task", time.Second) })
			time.Sleep(100 * time.Millisecond)
			if err := host.Restart(ctx, s.name, facade.WithDrain()); err != nil {
				w.fail("the last restart of %s has failed: %v", s.name, err)
			}
			calls.Wait()
			if err := host.WaitReady(ctx, s.name); err != nil {
				w.fail("%s is not ready after its last restart: %v", s.name, err)
			}
		})
	}
	all.Wait() // a server that fails may restart others
	for _, s := range w.servers {
		all.Go(func() {
			before, _ := host.ServerStatus(s.name)
			for _, l := range s.all() {
				l.stopFor(time.Minute)
			}
			time.Sleep(8 * time.Second)
			if st, _ := host.ServerStatus(s.name); st.State == supervisor.StateReady && st.Epoch == before.Epoch {
				w.fail("%s (HTTP %v, modern %v) has answered nothing for 8 s, and is %s", s.name, s.http != nil, s.modern, st.State)
			}
		})
	}
	all.Wait()
}

func isOf(content mcp.Content, id string) bool {
	text, ok := content.(*mcp.TextContent)
	return ok && len(text.Text) > len(id) && text.Text[:len(id)+1] == id+"#"
}

// all returns the incarnations that run.
func (s *server) all() []*life {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return append([]*life(nil), s.lives...)
}

// settleLists changes the list of each server: who follows the gateway knows it.
func (w *world) settleLists() {
	want := map[string]bool{}
	for _, s := range w.servers {
		tools := (s.tools + 1) % 4
		s.change(tools, false)
		want[s.name+"__do"] = true
		for i := range tools {
			want[fmt.Sprintf("%s__extra%d", s.name, i)] = true
		}
	}
	time.Sleep(5 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.peers[:4] {
		known := map[string]bool{}
		for _, name := range p.known {
			known[name] = true
		}
		if !maps.Equal(want, known) {
			w.failLocked("the servers offer %v, and peer %d, which follows the gateway, knows %v", slices.Sorted(maps.Keys(want)), p.n, p.known)
		}
	}
}

// settleCopies: of the server that runs once for each client there are no more copies than clients.
func (w *world) settleCopies() {
	if w.copied == "" || w.servers[0].http != nil {
		return
	}
	clients := 3 // principals of clients since 2026-07-28, and the client on lines
	for _, p := range w.peers {
		p.mu.Lock()
		if p.session != "" {
			clients++
		}
		p.mu.Unlock()
	}
	if n := len(w.servers[0].all()); n > clients+2 { // and its own, and a standby
		w.fail("%d incarnations of %s run for %d clients", n, w.copied, clients)
	}
}

// steal uses the session of a peer for another principal.
func (w *world) steal(ctx context.Context, p *peer) {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	if session == "" {
		return
	}
	thief := &peer{w: w, n: p.n, version: p.version, principal: map[string]string{"alice": "bob", "bob": "alice"}[p.principal], http: p.http, open: map[string]int{}}
	if a, _, err := thief.post(ctx, 7, "tools/list", "{}", "", session); err == nil && a.Error == nil {
		w.fail("%s uses the session of peer %d of %s: %+v", thief.principal, p.n, p.principal, a)
	}
}

// leave ends the session of a peer that does not follow.
func (p *peer) leave(ctx context.Context) {
	p.mu.Lock()
	session := p.session
	p.session = ""
	p.mu.Unlock()
	if session == "" {
		return
	}
	r, err := p.request(ctx, "DELETE", nil, "", "", session)
	if err != nil {
		return
	}
	if got, err := p.http.Do(r); err == nil {
		_ = got.Body.Close()
		p.w.mu.Lock()
		p.w.left[session] = time.Now()
		p.w.mu.Unlock()
	}
}
