package config

import (
	"fmt"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// readRetry reads false, "none", a number of attempts, or an object.
func (e *entry) readRetry(v *hujson.Value) {
	p := &e.spec.Policy
	flag, isFlag := literal(v, 't')
	text, isText := literal(v, '"')
	switch _, isNumber := literal(v, '0'); {
	case isFlag && flag.Bool():
		return
	case isFlag, isText && text.String() == "none":
		*p = supervisor.NoRetry()
		return
	case isNumber:
		e.readCount(v, &p.MaxAttempts)
		return
	}
	p.ParkEvery = 0 // an object parks only if it says so
	before := len(e.p.file.Problems)
	e.readObject(v, `{"max_attempts": 5, "base": "500ms", "park": "5m"}, or false`, retryRows)
	if p.ParkEvery != 0 {
		return
	}
	for i := before; i < len(e.p.file.Problems); i++ {
		if problem := &e.p.file.Problems[i]; problem.Severity == SeverityWarning { // an unknown key, perhaps "park"
			problem.Message += `; a "retry" object replaces the default policy, so without "park" the server is evicted when its retry budget is spent`
		}
	}
}

// readMaxAttempts reads a number, or "unlimited".
func (e *entry) readMaxAttempts(v *hujson.Value) {
	if lit, ok := literal(v, '"'); ok && lit.String() == "unlimited" {
		e.spec.Policy.MaxAttempts = supervisor.Unlimited
		return
	}
	e.readCount(v, &e.spec.Policy.MaxAttempts)
}

// readJitter reads a number. Policy.Validate checks its range.
func (e *entry) readJitter(v *hujson.Value) {
	lit, ok := literal(v, '0')
	if !ok {
		e.failType(v, "a number from 0 to 1", "0.2")
		return
	}
	e.spec.Policy.Jitter = lit.Float()
}

// readTimeout reads other hosts' "timeout" of a call. Some hosts mean seconds,
// others milliseconds. A timeout of 1000 s or more is unlikely for a tool, so a
// number from 1000 up is taken for milliseconds.
func (e *entry) readTimeout(v *hujson.Value) {
	lit, ok := literal(v, '0')
	if !ok || lit.Float() <= 0 || lit.Float() > 1e9 {
		e.warn(v, "\"timeout\" is ignored, because it is not a number of seconds or milliseconds; write \"timeouts\": %s", timeoutsFor(v))
		return
	}
	unit := time.Second
	if lit.Float() >= 1000 {
		unit = time.Millisecond
	}
	d := time.Duration(lit.Float() * float64(unit))
	e.spec.Timeouts.Call, e.callValue = d, v
	e.warn(v, "\"timeout\" is read as %v for a call; write \"timeouts\": {\"call\": %q} to be sure", d, d.String())
}

// timeoutsFor is what to write in place of a "timeout" that is not a number: the user's
// own value where that can stand in "timeouts".
func timeoutsFor(v *hujson.Value) string {
	object, _ := v.Value.(*hujson.Object)
	for m := range membersNamed(object, "call") {
		v = &m.Value
	}
	text := `"60s"`
	if lit, ok := literal(v, '"'); ok {
		if d, err := time.ParseDuration(lit.String()); err == nil && d > 0 {
			text = fmt.Sprintf("%q", lit.String())
		}
	} else if lit, ok := literal(v, '0'); ok && lit.Float() > 0 && lit.Float() < 1e6 {
		text = string(lit)
	}
	return `{"call": ` + text + `}`
}

// checkCallTimeouts warns of a timeout of calls without progress that has no effect.
func (e *entry) checkCallTimeouts() {
	t := e.spec.WithDefaults().Timeouts
	if e.callValue != nil && t.CallTotal > 0 && t.Call > t.CallTotal {
		e.warn(e.callValue, "\"timeouts.call\" is %v and \"timeouts.call_total\" %v, which ends the call first; raise both", t.Call, t.CallTotal)
	}
}

// readMaxQueued reads a number. In a file 0 means that no call waits; in
// mcpvisor.Limits 0 means the default and a negative number means that.
func (e *entry) readMaxQueued(v *hujson.Value) {
	queued := &e.spec.Limits.MaxQueued
	if e.readCount(v, queued); *queued == 0 {
		*queued = -1
	}
}

// readProbe reads false, true, or an object.
func (e *entry) readProbe(v *hujson.Value) {
	switch flag, isFlag := literal(v, 't'); {
	case !isFlag:
		e.readObject(v, `{"interval": "30s"}, or false`, probeRows)
	case !flag.Bool():
		e.spec.Probe.Interval = -1
	}
}
