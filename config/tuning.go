package config

import (
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// DefaultRetry is the policy of an entry without "retry": five tries, then a
// slow one every five minutes. A configured server is meant to be there.
var DefaultRetry = supervisor.Retry(5, 500*time.Millisecond, supervisor.WithMaxDelay(30*time.Second), supervisor.WithParking(5*time.Minute))

// object reads a nested object by the readers of its keys.
func (e *entry) object(v *hujson.Value, shape string, readers map[string]func(*entry, *hujson.Value)) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		e.fail(v, "an object is expected here; write %s", shape)
		return
	}
	e.members(object, readers, false)
}

// retry reads false, "none", a number of attempts, or an object.
func (e *entry) retry(v *hujson.Value) {
	p := &e.spec.Policy
	if lit, ok := literal(v, 't'); ok {
		if !lit.Bool() {
			*p = supervisor.NoRetry
		}
		return
	}
	if lit, ok := literal(v, '"'); ok && lit.String() == "none" {
		*p = supervisor.NoRetry
		return
	}
	if _, ok := literal(v, '0'); ok {
		e.count(v, &p.MaxAttempts)
		return
	}
	p.ParkEvery = 0 // whoever spells a policy out gets that and no more
	e.object(v, `{"max_attempts": 5, "base": "500ms"}, or false`, map[string]func(*entry, *hujson.Value){
		"max_attempts": func(e *entry, v *hujson.Value) {
			if lit, ok := literal(v, '"'); ok && lit.String() == "unlimited" {
				p.MaxAttempts = supervisor.Unlimited
				return
			}
			e.count(v, &p.MaxAttempts)
		},
		"base":         func(e *entry, v *hujson.Value) { e.clock(v, &p.Base) },
		"max":          func(e *entry, v *hujson.Value) { e.clock(v, &p.Max) },
		"stable_after": func(e *entry, v *hujson.Value) { e.clock(v, &p.StableAfter) },
		"park":         func(e *entry, v *hujson.Value) { e.clock(v, &p.ParkEvery) },
		"jitter": func(e *entry, v *hujson.Value) {
			lit, ok := literal(v, '0')
			if !ok {
				e.fail(v, "a number between 0 and 1 is expected here")
				return
			}
			p.Jitter = lit.Float()
		},
		"intensity": func(e *entry, v *hujson.Value) {
			e.object(v, `{"restarts": 5, "window": "30s"}`, map[string]func(*entry, *hujson.Value){
				"restarts": func(e *entry, v *hujson.Value) { e.count(v, &p.Intensity.Restarts) },
				"window":   func(e *entry, v *hujson.Value) { e.clock(v, &p.Intensity.Window) },
			})
		},
	})
}

func (e *entry) timeouts(v *hujson.Value) {
	t := &e.spec.Timeouts
	e.object(v, `{"call": "60s"}`, map[string]func(*entry, *hujson.Value){
		"start":     func(e *entry, v *hujson.Value) { e.clock(v, &t.Start) },
		"negotiate": func(e *entry, v *hujson.Value) { e.clock(v, &t.Negotiate) },
		"list":      func(e *entry, v *hujson.Value) { e.clock(v, &t.List) },
		"call":      func(e *entry, v *hujson.Value) { e.clock(v, &t.Call) },
		"hard_max":  func(e *entry, v *hujson.Value) { e.clock(v, &t.CallTotal) },
		"shutdown":  func(e *entry, v *hujson.Value) { e.clock(v, &t.Shutdown) },
	})
}

// timeout reads the key of that name of other hosts. Some mean seconds by it
// and some milliseconds; nobody waits 1000 seconds for a tool on purpose.
func (e *entry) timeout(v *hujson.Value) {
	lit, ok := literal(v, '0')
	if !ok || lit.Float() <= 0 || lit.Float() > 1e9 {
		e.warn(v, "\"timeout\" is not used; write \"timeouts\": {\"call\": \"60s\"}")
		return
	}
	unit := time.Second
	if lit.Float() >= 1000 {
		unit = time.Millisecond
	}
	d := time.Duration(lit.Float() * float64(unit))
	e.spec.Timeouts.Call = d
	e.warn(v, "\"timeout\" is read as %v for a call; write \"timeouts\": {\"call\": %q} to be sure", d, d.String())
}

func (e *entry) limits(v *hujson.Value) {
	l := &e.spec.Limits
	readers := map[string]func(*entry, *hujson.Value){}
	for key, n := range map[string]*int{"line": &l.MaxMessageBytes, "items": &l.MaxItems, "pages": &l.MaxPages, "catalog": &l.MaxCatalogBytes,
		"buffer": &l.MaxBufferBytes, "elements": &l.MaxElements, "decoded": &l.MaxDecodedBytes, "in_flight": &l.MaxInFlight, "stderr_lines": &l.MaxStderrLines} {
		readers[key] = func(e *entry, v *hujson.Value) { e.count(v, n) }
	}
	readers["queue"] = func(e *entry, v *hujson.Value) {
		if e.count(v, &l.MaxQueued); l.MaxQueued == 0 {
			l.MaxQueued = -1 // none, as whoever writes 0 means
		}
	}
	e.object(v, `{"in_flight": 64}`, readers)
}

func (e *entry) probe(v *hujson.Value) {
	p := &e.spec.Probe
	if lit, ok := literal(v, 't'); ok {
		if !lit.Bool() {
			p.Interval = -1
		}
		return
	}
	e.object(v, `{"every": "30s"}, or false`, map[string]func(*entry, *hujson.Value){
		"every":    func(e *entry, v *hujson.Value) { e.clock(v, &p.Interval) },
		"timeout":  func(e *entry, v *hujson.Value) { e.clock(v, &p.Timeout) },
		"failures": func(e *entry, v *hujson.Value) { e.count(v, &p.Failures) },
	})
}

func (e *entry) era(v *hujson.Value) {
	text, ok := e.raw(v)
	if !ok {
		return
	}
	switch text {
	case "auto":
		e.spec.Era = mcpvisor.EraAuto
	case "legacy", "modern":
		e.spec.Era = mcpvisor.Era(text)
	default:
		e.fail(v, "era %q is unknown; use \"auto\", \"legacy\" or \"modern\"", text)
	}
}
