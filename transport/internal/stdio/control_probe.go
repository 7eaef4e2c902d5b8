package stdio

import (
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// probing is what became of the last server/discover. It is remembered when it
// is given up: the answer may only be late.
type probing struct {
	id       sdkrpc.ID
	state    probeState
	result   bool // the answer is one, and no error
	late     bool // it came when it was given up
	clock    *time.Timer
	answered chan struct{}
}

type probeState uint8

const (
	probeNone probeState = iota
	probeAsked
	probeGivenUp
	probeAnswered
)

func (p *probing) stop() {
	if p.clock != nil {
		p.clock.Stop()
	}
}

func (c *control) beginProbe(id sdkrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe.stop()
	c.probe = probing{id: id, state: probeAsked, answered: make(chan struct{})}
	if c.patience > 0 {
		c.probe.clock = time.AfterFunc(c.patience, func() { c.giveUpProbe(id) })
	}
}

// giveUpProbe answers a server/discover that the server does not answer. "Any
// non-modern error or no response within a reasonable timeout" means a legacy
// server (2026-07-28, versioning, stdio).
func (c *control) giveUpProbe(id sdkrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe.state != probeAsked || c.probe.id != id {
		return
	}
	c.probe.state = probeGivenUp
	c.pushLocked(&sdkrpc.Response{ID: id, Error: &sdkrpc.Error{
		Code: sdkrpc.CodeMethodNotFound, Message: "server/discover was not answered in time"}})
}

// probeHeard notes the answer to server/discover. It reports whether r is one
// that comes too late for the go-sdk.
func (c *control) probeHeard(r *sdkrpc.Response) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.probe
	if p.id != r.ID || p.state != probeAsked && p.state != probeGivenUp {
		return false
	}
	p.stop()
	p.late, p.result = p.state == probeGivenUp, r.Error == nil
	p.state = probeAnswered
	close(p.answered)
	return p.late
}

// probed is what became of server/discover.
func (c *control) probed() probing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probe
}
