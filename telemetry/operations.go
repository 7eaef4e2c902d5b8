package telemetry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Bounds of the series of requests, so that they stay below the 2,000 series that the SDK
// allows for each metric by default.
const (
	// maxTools is how many tools and prompts of all servers together have series of their
	// own. Further ones are reported as [monitor.OtherTools].
	maxTools = 1000
	// maxToolSeries bounds the series with the name of a tool or prompt, which failures of
	// different types multiply; maxSeries those with the name of a server.
	maxToolSeries = 1500
	maxSeries     = 1900
)

// seriesKey identifies a series of requests.
type seriesKey struct {
	incoming               bool
	server, method, target string
	protocol, failure      string
	transport              string // of the server
}

// toolKey identifies a tool or prompt.
type toolKey struct{ server, method, target string }

func (k seriesKey) tool() toolKey { return toolKey{k.server, k.method, k.target} }

// attributes are the attributes of the series.
func (k seriesKey) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{keyServer.String(k.server), keyMethod.String(k.method)}
	if k.target != "" {
		all = append(all, targetKey(k.method).String(k.target))
	}
	if k.protocol != "" {
		all = append(all, keyProtocol.String(k.protocol))
	}
	if k.failure != "" {
		all = append(all, keyErrorType.String(k.failure))
	}
	if network := networkTransport(k.transport); network != "" {
		all = append(all, keyTransport.String(network))
	}
	return all
}

// operations records the durations of requests. Finding the attributes of a request takes
// no lock and allocates nothing, once its series is known. Safe for concurrent use.
type operations struct {
	outgoing metric.Float64Histogram                              // does not change
	incoming metric.Float64Histogram                              // does not change
	with     func(...attribute.KeyValue) metric.MeasurementOption // does not change
	known    atomic.Pointer[seriesSet]
	mu       sync.Mutex // held to replace known
}

// series are the attributes of a series, as options. They do not change.
type series struct{ options []metric.RecordOption }

// seriesSet is what is known at one moment. It does not change: an addition makes a copy.
type seriesSet struct {
	series map[seriesKey]*series
	tools  map[toolKey]bool
	named  int // series with the name of a tool or prompt
}

func newOperations(i *instruments) *operations {
	o := &operations{outgoing: i.histograms[nameClientOperation], incoming: i.histograms[nameServerOperation], with: i.with}
	o.known.Store(&seriesSet{series: map[seriesKey]*series{}, tools: map[toolKey]bool{}})
	return o
}

// ended records a request. A request that was refused before anything was sent has no
// duration; the client counts it.
func (o *operations) ended(ctx context.Context, r *monitor.RequestEnd) {
	key := seriesKey{incoming: r.Incoming, server: r.Server, method: r.Method, protocol: r.Protocol, failure: errorType(r), transport: r.Transport}
	if r.Incoming {
		key.method = knownMethod(r.Method)
		o.incoming.Record(ctx, r.Took.Seconds(), o.find(key).options...)
		return
	}
	if r.Outcome == mcpvisor.OutcomeNotSent {
		return
	}
	if r.Listed && targetKey(r.Method) != "" {
		key.target = r.Target
	}
	o.outgoing.Record(ctx, r.Took.Seconds(), o.find(key).options...)
}

// find returns a series. Beyond the bounds it is one that several tools or servers share.
func (o *operations) find(key seriesKey) *series {
	known := o.known.Load()
	if found := known.series[key]; found != nil {
		return found
	}
	key = known.bounded(key)
	if found := known.series[key]; found != nil {
		return found
	}
	return o.add(key)
}

// bounded returns the key of the series that a new key belongs to.
func (s *seriesSet) bounded(key seriesKey) seriesKey {
	if key.target != "" && key.target != otherName && (s.named >= maxToolSeries || len(s.tools) >= maxTools && !s.tools[key.tool()]) {
		key.target = otherName
	}
	if len(s.series) >= maxSeries {
		key.server = otherName
		if key.target != "" {
			key.target = otherName
		}
	}
	return key
}

// add makes a series.
func (o *operations) add(key seriesKey) *series {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known.Load()
	key = known.bounded(key)
	if found := known.series[key]; found != nil {
		return found
	}
	made := &series{[]metric.RecordOption{o.with(key.attributes()...)}}
	next := &seriesSet{series: maps.Clone(known.series), tools: known.tools, named: known.named}
	next.series[key] = made
	if key.target != "" && key.target != otherName {
		next.named++
		if !next.tools[key.tool()] {
			next.tools = maps.Clone(next.tools)
			next.tools[key.tool()] = true
		}
	}
	o.known.Store(next)
	return made
}

// knownMethod returns the method of a request that a server made, if it is one of the
// protocol. A server can invent any number of others.
func knownMethod(method string) string {
	switch method {
	case "sampling/createMessage", "elicitation/create", "roots/list", "ping":
		return method
	}
	return unknownValue
}
