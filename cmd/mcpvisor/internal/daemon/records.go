package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/records"
	"github.com/mcpvisor/mcpvisor/rules"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// keptRecords are the records of a client that a command keeps running; nil without a directory for them.
type keptRecords struct {
	inv    *servers.Opener
	writer *records.Writer
	whole  bool                          // the arguments of calls are wanted
	masks  atomic.Pointer[control.Masks] // nil before there is a client
	failed atomic.Pointer[api.Attention] // nil while records are written
	prints atomic.Pointer[changePrinter] // nil before there is a client
	stop   context.CancelFunc            // of the watch
	ended  chan struct{}                 // closed when the last event was recorded
}

// openRecords opens the directory that the options name.
func (cmd *Serving) openRecords(inv *servers.Opener) (*keptRecords, error) {
	if cmd.Records == "" {
		return nil, nil //nolint:nilnil // see keptRecords
	}
	key, err := cli.ReadKey(cmd.RecordsKeyFile)
	if err != nil {
		return nil, err
	}
	k := &keptRecords{inv: inv, whole: cmd.RecordsArguments != string(records.ArgumentsNone), ended: make(chan struct{})}
	k.writer, err = records.Open(cmd.Records, records.Options{Anchor: cmd.RecordsAnchor, Key: key, Arguments: records.Arguments(cmd.RecordsArguments),
		WhenFull: records.Full(cmd.RecordsFull), MaxBytes: int64(cmd.RecordsSize) << 20, Mask: func(server string) func(string) string {
			if masks := k.masks.Load(); masks != nil {
				return masks.Of(server)
			}
			return nil
		}, Report: k.report})
	if err != nil {
		return nil, fmt.Errorf("the records of calls and events: %w", err)
	}
	return k, nil
}

// option has the client report its calls; nil without records.
func (k *keptRecords) option() facade.Option {
	if k == nil {
		return nil
	}
	return facade.WithEndedCalls(k.writer.Call, k.whole)
}

// decided records what became of a call that a rule asks about.
func (k *keptRecords) decided(q rules.Question, refused error) {
	if k == nil {
		return
	}
	r := records.Record{Kind: records.KindApproval, Server: q.Server, Method: "tools/call", Target: q.Tool, Client: q.Client, Principal: q.Principal, Arguments: q.Arguments,
		Text: mcpvisor.Qualify(q.Server, q.Tool) + " was approved, as " + q.Rule + " asks"}
	if refused != nil {
		r.ErrorKind, r.Text = mcpvisor.KindDenied, refused.Error()
	}
	k.writer.Add(r)
}

// search finds records for the page.
func (k *keptRecords) search(dir string) func(context.Context, api.RecordsQuery) ([]json.RawMessage, error) {
	return func(ctx context.Context, wanted api.RecordsQuery) (found []json.RawMessage, err error) {
		q := records.Query{Kinds: []records.Kind{records.KindCall}, Text: wanted.Text, Server: wanted.Server, Since: wanted.Since, Last: wanted.Last, MaxArguments: 4 << 10, Check: ctx.Err}
		if wanted.Events {
			q.Kinds = records.EventKinds()
		}
		if wanted.Unknown {
			q.Outcome = mcpvisor.OutcomeUnknown
		}
		err = records.Read(dir, q, func(r records.Record) error {
			text, _ := json.Marshal(&r) // it was read from JSON
			found = append(found, text)
			return ctx.Err()
		})
		slices.Reverse(found)
		return found, err
	}
}

// begin records the events of a client until its end.
func (k *keptRecords) begin(r *running, dir string) {
	if k == nil {
		return
	}
	k.masks.Store(r.served.Masks)
	r.served.Program.Records = k.search(dir)
	k.prints.Store(r.printer)
	if other := r.served.Attention; other != nil {
		r.served.Attention = func() []api.Attention { return append(other(), k.attention()...) }
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	events := r.client.Watch(ctx, slices.DeleteFunc(mcpvisor.EventKinds(), mcpvisor.EventKind.FromServer)...)
	go func() {
		defer close(k.ended)
		for e := range events {
			k.record(&e, r.served.Change)
		}
	}()
}

// record records an event. That of a server that was registered again says how its entry differs, if change knows.
func (k *keptRecords) record(e *mcpvisor.Event, change func(server string, gen uint64) string) {
	if e.Kind == mcpvisor.EventRegistered && change != nil {
		if text := change(e.Server, e.Gen); text != "" {
			details, _ := json.Marshal(e) // an event always marshals
			k.writer.Add(records.Record{Time: e.Time, Kind: records.KindEvent, Server: e.Server, Event: e.Kind, Details: details,
				Text: e.Server + " registered again, with another specification: " + text})
			return
		}
	}
	k.writer.Event(*e)
}

// report says in one line each that records cannot be written, and that they can again.
func (k *keptRecords) report(problem string) {
	text := "records of calls and events are written again"
	if problem == "" {
		k.failed.Store(nil)
	} else {
		text = "calls and events are not recorded: " + problem
		now := time.Now()
		k.failed.Store(&api.Attention{Kind: api.AttentionRecords, Severity: api.SeverityError, Since: &now, Text: display.Line(text),
			Action: "make room on the disk, or raise --records-size; records are then written by themselves"})
	}
	if p := k.prints.Load(); p != nil {
		p.later(func() { k.inv.Warn("", "%s", text) })
	} else {
		k.inv.Warn("", "%s", text)
	}
}

// attention is that of records that cannot be written.
func (k *keptRecords) attention() []api.Attention {
	if a := k.failed.Load(); a != nil {
		return []api.Attention{*a}
	}
	return nil
}

// close records the last events, and closes the records. The client has ended.
func (k *keptRecords) close() error {
	if k == nil {
		return nil
	}
	if k.stop != nil {
		select {
		case <-k.ended:
		case <-time.After(endOfReading): // the client could not be closed
			k.stop()
			<-k.ended
		}
		k.stop()
	}
	if err := k.writer.Close(); err != nil {
		return fmt.Errorf("the records of calls and events: %w", err)
	}
	if lost := k.writer.Stats().Dropped; lost > 0 {
		k.inv.Warn("", "%d records of calls and events found no room, and were dropped", lost)
	}
	return nil
}
