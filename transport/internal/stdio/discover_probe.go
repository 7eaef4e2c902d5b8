package stdio

import (
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// discoverProbe is the state of the last server/discover of the handshake. It is kept
// after the timeout, because a late answer still shows which era the server speaks. The
// mutex of the control channel guards it.
type discoverProbe struct {
	id        sdkrpc.ID
	state     probeState
	succeeded bool // the response is a result, not an error
	late      bool // the response came after the timeout
	timer     *time.Timer
	answered  chan struct{} // closed by the response
	onLate    func()        // called at a late result; nil: see onLateResult
}

type probeState uint8

const (
	probeNone    probeState = iota // server/discover was not sent
	probeSent                      // no response yet
	probeGivenUp                   // no response within the timeout
	probeAnswered
)

// isUnanswered reports whether server/discover was sent and no response has come.
func (s probeState) isUnanswered() bool { return s == probeSent || s == probeGivenUp }

func (p *discoverProbe) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// startProbe records that the go-sdk sends server/discover, and starts its timeout.
func (ch *controlChannel) startProbe(id sdkrpc.ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.probe.stop()
	ch.probe = discoverProbe{id: id, state: probeSent, answered: make(chan struct{})}
	if ch.discoverTimeout > 0 {
		ch.probe.timer = time.AfterFunc(ch.discoverTimeout, func() { ch.giveUpProbe(id) })
	}
}

// giveUpProbe passes "method not found" to the go-sdk in place of a response to
// server/discover, so that it falls back to initialize. "Any non-modern error or no
// response within a reasonable timeout" means a legacy server (2026-07-28, versioning,
// stdio).
func (ch *controlChannel) giveUpProbe(id sdkrpc.ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.probe.state != probeSent || ch.probe.id != id {
		return
	}
	ch.probe.state = probeGivenUp
	ch.pushLocked(&sdkrpc.Response{ID: id, Error: &sdkrpc.Error{
		Code: sdkrpc.CodeMethodNotFound, Message: "server/discover was not answered in time"}})
}

// recordProbeAnswer records the response if it answers server/discover. It reports
// whether the response is late: the go-sdk does not expect it any more.
func (ch *controlChannel) recordProbeAnswer(r *sdkrpc.Response) (late bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := &ch.probe
	if p.id != r.ID || p.state != probeSent && p.state != probeGivenUp {
		return false
	}
	p.stop()
	p.late, p.succeeded = p.state == probeGivenUp, r.Error == nil
	p.state = probeAnswered
	close(p.answered)
	if p.onLate != nil && p.succeeded {
		p.onLate()
	}
	return p.late
}

// onLateResult has f called once if server/discover is answered with a result after its
// timeout; at once if that has happened. f must not block: the reader of the connection
// calls it, with the mutex of the control channel.
func (ch *controlChannel) onLateResult(f func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch p := &ch.probe; {
	case p.late && p.succeeded:
		f()
	case p.state == probeGivenUp:
		p.onLate = f
	}
}

// probeResult returns a copy of the state of server/discover.
func (ch *controlChannel) probeResult() discoverProbe {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.probe
}
