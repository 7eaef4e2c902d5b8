package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxServers is how many names of servers the metrics of events have in the life of a
// client. A host that registers servers under ever new names gets monitor.OtherTools beyond.
const maxServers = 1000

// causeKinds are all kinds of causes, the series of mcpvisor.server.ends.
var causeKinds = []supervisor.CauseKind{
	supervisor.CauseSpawn, supervisor.CauseConfig, supervisor.CauseHandshake, supervisor.CauseVersion, supervisor.CauseAuth,
	supervisor.CauseExit, supervisor.CauseSignal, supervisor.CauseClosed, supervisor.CauseProtocol, supervisor.CauseTimeout,
	supervisor.CauseProbe, supervisor.CausePanic, supervisor.CauseRequested, supervisor.CauseRestart, supervisor.CauseMoved, supervisor.CauseFenced,
}

// lifecycle records what the events of a client say about its servers. One goroutine owns
// it.
type lifecycle struct {
	ends, changes          metric.Int64Counter
	start, session, outage metric.Float64Histogram
	servers                map[string]*serverPhase
	names                  map[string]bool // of servers, at most maxServers
	with                   func(...attribute.KeyValue) metric.MeasurementOption
}

// serverPhase is what one registration does now.
type serverPhase struct {
	gen uint64
	// connecting is when the incarnation that starts was started, ready when the one in
	// service became ready; otherwise zero.
	connecting, ready time.Time
	protocol          string // of the session in service
	// standby is the epoch of the standby that is ready; 0: none. It ends without an event of
	// its own if the server in service ends and the standby does not take over.
	standby uint64
	cause   *supervisor.Cause // of the last end in service
}

func newLifecycle(i *instruments) *lifecycle {
	return &lifecycle{ends: i.counters[nameEnds], changes: i.counters[nameCatalogChanges], start: i.histograms[nameStart],
		session: i.histograms[nameSession], outage: i.histograms[nameOutage], servers: map[string]*serverPhase{}, names: map[string]bool{}, with: i.with}
}

// record records one event.
func (l *lifecycle) record(ctx context.Context, e *mcpvisor.Event) {
	if e.Kind == mcpvisor.EventMissed {
		clear(l.servers) // what they do now is not known
		return
	}
	if e.Kind == mcpvisor.EventTaskRecovered || e.Kind == mcpvisor.EventTaskLost || e.Kind == mcpvisor.EventGroupFailed { // Totals count tasks; a group is no server
		return
	}
	server := l.attribute(e.Server)
	phase := l.servers[e.Server]
	if phase == nil || phase.gen != e.Gen {
		phase = &serverPhase{gen: e.Gen}
		l.servers[e.Server] = phase
	}
	switch e.Kind {
	case mcpvisor.EventRegistered:
		for _, cause := range causeKinds { // a rate needs a series that begins with 0
			l.ends.Add(ctx, 0, l.with(server, keyCause.String(string(cause))))
		}
	case mcpvisor.EventConnecting:
		if !phase.connecting.IsZero() { // Restart has ended a start, which has no event of its own
			l.ended(ctx, server, &supervisor.Cause{Kind: supervisor.CauseRestart})
		}
		phase.connecting = e.Time
		l.withdrawn(ctx, server, phase, phase.cause)
	case mcpvisor.EventReady:
		l.started(ctx, server, phase, e, nil)
		if e.Epoch == phase.standby { // it has taken over
			phase.standby = 0
		}
		phase.ready, phase.protocol = e.Time, e.Protocol
		if e.Downtime > 0 {
			l.outage.Record(ctx, e.Downtime.Seconds(), l.with(server))
		}
		l.changed(ctx, server, e.Change)
	case mcpvisor.EventStartFailed:
		l.started(ctx, server, phase, e, e.Cause)
		l.ended(ctx, server, e.Cause)
	case mcpvisor.EventDown:
		l.served(ctx, server, phase, e)
		l.ended(ctx, server, e.Cause)
		phase.cause = e.Cause
	case mcpvisor.EventStandby:
		phase.standby = e.Epoch
	case mcpvisor.EventStandbyLost:
		l.ended(ctx, server, e.Cause)
		phase.standby = 0
	case mcpvisor.EventRetry, mcpvisor.EventParked:
		l.withdrawn(ctx, server, phase, phase.cause)
	case mcpvisor.EventAsleep, mcpvisor.EventStopped, mcpvisor.EventEvicted:
		l.planned(ctx, server, phase, e)
		l.withdrawn(ctx, server, phase, phase.cause)
	case mcpvisor.EventChanged:
		l.changed(ctx, server, e.Change)
	case mcpvisor.EventUnregistered:
		l.planned(ctx, server, phase, e)
		l.withdrawn(ctx, server, phase, e.Cause)
		delete(l.servers, e.Server)
	case mcpvisor.EventStable, mcpvisor.EventResourceUpdated, mcpvisor.EventLog, mcpvisor.EventAuthRequired, mcpvisor.EventMissed, mcpvisor.EventTaskRecovered, mcpvisor.EventTaskLost,
		mcpvisor.EventWaiting, mcpvisor.EventGroupFailed: // nothing is counted
	}
}

// attribute names a server.
func (l *lifecycle) attribute(name string) attribute.KeyValue {
	if !l.names[name] {
		if len(l.names) >= maxServers {
			return keyServer.String(otherName)
		}
		l.names[name] = true
	}
	return keyServer.String(name)
}

// started records the end of a start; cause is nil if the server is ready.
func (l *lifecycle) started(ctx context.Context, server attribute.KeyValue, phase *serverPhase, e *mcpvisor.Event, cause *supervisor.Cause) {
	if phase.connecting.IsZero() { // a standby has taken over, or events were missed
		return
	}
	all := []attribute.KeyValue{server}
	if cause != nil {
		all = append(all, keyErrorType.String(string(cause.Kind)))
	}
	l.start.Record(ctx, e.Time.Sub(phase.connecting).Seconds(), l.with(all...))
	phase.connecting = time.Time{}
}

// served records the end of a session that was ready.
func (l *lifecycle) served(ctx context.Context, server attribute.KeyValue, phase *serverPhase, e *mcpvisor.Event) {
	if phase.ready.IsZero() {
		return
	}
	all := []attribute.KeyValue{server}
	if phase.protocol != "" {
		all = append(all, keyProtocol.String(phase.protocol))
	}
	if c := e.Cause; c != nil && !c.Asked() {
		all = append(all, keyErrorType.String(string(c.Kind)))
	}
	l.session.Record(ctx, e.Time.Sub(phase.ready).Seconds(), l.with(all...))
	phase.ready = time.Time{}
}

// planned records an incarnation that ended as planned, without an event of its own.
func (l *lifecycle) planned(ctx context.Context, server attribute.KeyValue, phase *serverPhase, e *mcpvisor.Event) {
	if phase.connecting.IsZero() && phase.ready.IsZero() {
		return
	}
	l.served(ctx, server, phase, e)
	l.ended(ctx, server, e.Cause)
	phase.connecting = time.Time{}
}

// ended counts an incarnation that ended.
func (l *lifecycle) ended(ctx context.Context, server attribute.KeyValue, cause *supervisor.Cause) {
	if cause != nil {
		l.ends.Add(ctx, 1, l.with(server, keyCause.String(string(cause.Kind))))
	}
}

// withdrawn counts a standby that ended with the server in service, by the same cause.
func (l *lifecycle) withdrawn(ctx context.Context, server attribute.KeyValue, phase *serverPhase, cause *supervisor.Cause) {
	if phase.standby != 0 {
		phase.standby = 0
		l.ended(ctx, server, cause)
	}
}

// changed counts the entries of all lists that have changed.
func (l *lifecycle) changed(ctx context.Context, server attribute.KeyValue, c *mcpvisor.Change) {
	if c == nil {
		return
	}
	var added, removed, changed int
	for _, d := range []*mcpvisor.Delta{&c.Tools, &c.Resources, &c.Templates, &c.Prompts} {
		added += len(d.Added) + d.AddedMore
		removed += len(d.Removed) + d.RemovedMore
		changed += len(d.Changed) + d.ChangedMore
	}
	for change, n := range map[string]int{"added": added, "removed": removed, "changed": changed} {
		l.changes.Add(ctx, int64(n), l.with(server, keyChange.String(change)))
	}
}
