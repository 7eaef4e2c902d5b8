package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/usage"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// collector reads a client when metrics are collected.
type collector struct {
	client      *facade.Client
	usage       usage.Recorder        // what the processes of the servers use
	gateway     func() clients.Status // nil without one
	instruments *instruments
}

// collect is the callback of all observed instruments.
func (c *collector) collect(_ context.Context, observer metric.Observer) error {
	o := observation{observer, c.instruments}
	stats := c.client.Stats()
	none := c.instruments.with()
	o.count(nameMissed, int64(stats.MissedEvents), none)
	o.count(nameManager, int64(stats.ManagerRestarts), none)
	o.count(nameStale, int64(stats.StaleMessages), none)
	o.count(nameRefused, stats.UnknownServer, c.instruments.with(keyErrorType.String(string(mcpvisor.ErrUnknownServer))))
	if c.gateway != nil {
		o.clients(c.gateway())
	}
	now := time.Now()
	tasks := c.client.Tasks()
	all := c.client.Status()
	used, _ := c.usage.Read(now, 0, func() []usage.Target { return usage.Of(all) })
	for _, status := range all {
		o.server(&status, now)
		o.tasks(&status, tasks, now)
		if samples := used[status.Name]; len(samples) > 0 && samples[len(samples)-1].Known {
			last, alone := samples[len(samples)-1], c.instruments.with(keyServer.String(status.Name))
			o.count(nameMemory, last.Memory, alone)
			o.seconds(nameCPU, last.CPUTime, alone)
		}
	}
	return nil
}

// observation is one collection.
type observation struct {
	metric.Observer
	instruments *instruments
}

func (o *observation) count(name string, value int64, attributes metric.MeasurementOption) {
	o.ObserveInt64(o.instruments.ints[name], value, attributes)
}

func (o *observation) seconds(name string, value time.Duration, attributes metric.MeasurementOption) {
	o.ObserveFloat64(o.instruments.floats[name], value.Seconds(), attributes)
}

// server observes one server.
func (o *observation) server(s *mcpvisor.ServerStatus, now time.Time) {
	name := keyServer.String(s.Name)
	alone := o.instruments.with(name)
	with := func(key attribute.Key, value string) metric.MeasurementOption {
		return o.instruments.with(name, key.String(value))
	}

	for _, state := range supervisor.States() {
		o.count(nameState, oneIf(s.State == state), with(keyState, string(state)))
	}
	o.count(nameRestarts, int64(s.Restarts), alone)
	o.count(nameEpoch, int64(s.Epoch), alone)
	o.count(nameAttempt, int64(s.Attempt), alone)
	o.seconds(nameReadyTime, s.Totals.Uptime, alone)
	remaining := time.Duration(0)
	if s.RetryAt != nil {
		remaining = max(s.RetryAt.Sub(now), 0)
	}
	o.seconds(nameBackoff, remaining, alone)
	down := time.Duration(0)
	if s.DownSince != nil {
		down = max(now.Sub(*s.DownSince), 0)
	}
	o.seconds(nameDown, down, alone)
	o.count(nameInFlight, s.Calls.InFlight, alone)
	o.count(nameQueued, s.Calls.Queued, alone)
	for failure, n := range s.Totals.Refused {
		o.count(nameRefused, n, with(keyErrorType, string(failure)))
	}
	o.count(nameUnknown, s.Totals.Unknown, alone)
	d := s.Totals.Discarded
	for what, n := range map[string]uint64{"malformed": d.Malformed, "oversize": d.Oversize, "unmatched": d.Unmatched, "dropped": d.Dropped} {
		o.count(nameDiscarded, int64(n), with(keyDiscarded, what))
	}
	for list, n := range map[string]int{"tools": s.Catalog.Tools, "resources": s.Catalog.Resources,
		"templates": s.Catalog.Templates, "prompts": s.Catalog.Prompts} {
		o.count(nameCatalogSize, int64(n), with(keyList, list))
	}
	o.count(nameCatalogCost, int64(s.Catalog.Tokens), alone)
	o.count(nameStandby, oneIf(s.Standby != nil), alone)
	o.count(nameStale, int64(s.Totals.StaleMessages), alone)
}

// tasks observes what became of calls that a server executes as tasks. all are those of all
// servers that are open, the oldest first.
func (o *observation) tasks(s *mcpvisor.ServerStatus, all []mcpvisor.OpenTask, now time.Time) {
	open, age := int64(0), time.Duration(0)
	for _, t := range all {
		if t.Server != s.Name {
			continue
		}
		if open++; open == 1 {
			age = max(now.Sub(t.Began), 0)
		}
	}
	with := o.instruments.with(keyServer.String(s.Name))
	o.count(nameTasks, open, with)
	o.seconds(nameTaskAge, age, with)
	o.count(nameTaskRecovered, s.Totals.TasksRecovered, with)
	o.count(nameTaskLost, s.Totals.TasksLost, with)
}

// clients observes the clients of a gateway.
func (o *observation) clients(s clients.Status) {
	none := o.instruments.with()
	o.count(nameSessions, int64(s.Total), none)
	o.count(nameStreams, int64(s.Streams), none)
	o.count(nameGatewayInFlight, int64(s.InFlight), none)
	for outcome, n := range s.Requests {
		o.count(nameRequests, n, o.instruments.with(keyRequestEnd.String(string(outcome))))
	}
	for why, n := range s.Refused {
		o.count(nameGatewayRefused, n, o.instruments.with(keyRefusal.String(string(why))))
	}
}

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
