package simulation

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// heapBudget bounds what the heap may grow by under one attack, with the limits of [world.serve].
const heapBudget = 16 << 20

var pad = strings.Repeat("x", 1<<20)

// attacks are what one client of the gateway does, and the server that it calls. Requests go on until ctx ends.
var attacks = map[string]func(ctx context.Context, w *world, all *sync.WaitGroup){
	"large requests to servers that do not answer": func(ctx context.Context, w *world, all *sync.WaitGroup) {
		for _, s := range w.servers {
			s.oldest().stopFor(time.Minute)
		}
		for range 100 {
			all.Go(func() { w.peers[3].throw(ctx, strings.NewReader(pad[:512<<10]), "plain") })
		}
	},
	"large results that it does not read": func(ctx context.Context, w *world, all *sync.WaitGroup) {
		for range 30 {
			all.Go(func() { w.peers[3].throw(ctx, strings.NewReader(""), "large") })
		}
	},
	"progress that it does not read": func(ctx context.Context, w *world, all *sync.WaitGroup) {
		for range 10 {
			all.Go(func() { w.peers[3].throw(ctx, strings.NewReader(""), "flood") })
		}
	},
	"sessions with subscriptions": func(ctx context.Context, w *world, _ *sync.WaitGroup) {
		for range 500 {
			p := w.newPeer(0)
			p.http = w.peers[0].http
			if session, err := p.openSession(ctx); err == nil {
				_, _, _ = p.post(ctx, p.id(), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, w.servers[0].uri()), "", session)
			}
		}
	},
	"tasks that it does not follow": func(ctx context.Context, w *world, _ *sync.WaitGroup) {
		p := w.peers[3]
		meta := strings.Replace(modernMeta, `{"elicitation":{}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		for n := range 2000 {
			_, _, _ = p.post(ctx, p.id(), "tools/call", fmt.Sprintf(`{"name":"s0__do","arguments":{"id":"t%d","form":"task","delay":%d},"_meta":{%s}}`, n, time.Hour, meta), "s0__do", "")
		}
	},
}

// throw makes a call and does not read the answer until ctx ends.
func (p *peer) throw(ctx context.Context, more io.Reader, form string) {
	body := io.MultiReader(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s0__do","_meta":{"progressToken":1,%s},"arguments":{"id":"a","form":%q,"more":"`, modernMeta, form)), more, strings.NewReader(`"}}}`))
	r, err := p.request(ctx, "POST", body, "tools/call", "s0__do", "")
	if err != nil {
		p.w.fail("%v", err)
		return
	}
	if got, err := p.http.Do(r); err == nil {
		<-ctx.Done()
		_ = got.Body.Close()
	}
}

// attack makes an attack, and measures the heap while it lasts.
func (w *world) attack(with func(context.Context, *world, *sync.WaitGroup)) {
	before := heap()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	with(ctx, w, &all)
	time.Sleep(3 * time.Second)
	after := heap()
	w.t.Logf("%d KiB", (after-before)>>10)
	if after-before > heapBudget {
		w.fail("the heap has grown by %d KiB", (after-before)>>10)
	}
	cancel()
	all.Wait()
	w.mu.Lock()
	w.ledger = nil // the calls of an attack have one name
	w.mu.Unlock()
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestMemory: one client attacks, and the heap stays within its budget.
func TestMemory(t *testing.T) {
	for name := range attacks {
		t.Run(name, func(t *testing.T) {
			for _, seed := range []uint64{1, 2} { // of other kinds of servers
				if failed := run(t, seed, []event{{At: time.Second, Kind: "attack", Key: name}}); len(failed) > 0 {
					t.Error(strings.Join(failed, "\n"))
				}
			}
		})
	}
}
