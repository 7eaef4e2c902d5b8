package facade

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/monitor"
)

// detachedTasks are the tasks of calls that have returned before the tasks ended: WithEndedCalls reports the end, too, once,
// when a caller learns of it. The zero value is empty. Safe for concurrent use.
type detachedTasks struct {
	mu  sync.Mutex
	all map[detachedTask]monitor.EndedCall // the calls; guarded by mu
}

// detachedTask names one: origin is taskOrigin.String.
type detachedTask struct{ server, id, origin string }

// maxDetachedTasks bounds them: a caller may never ask again.
const maxDetachedTasks = 4096

func (d *detachedTasks) add(t detachedTask, call monitor.EndedCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[detachedTask]monitor.EndedCall{}
	}
	if len(d.all) >= maxDetachedTasks {
		var oldest detachedTask
		for other, c := range d.all {
			if oldest.id == "" || c.Began.Before(d.all[oldest].Began) {
				oldest = other
			}
		}
		delete(d.all, oldest)
	}
	call.Task, call.Arguments = false, nil
	d.all[t] = call
}

func (d *detachedTasks) take(t detachedTask) (call monitor.EndedCall, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call, ok = d.all[t]
	delete(d.all, t)
	return call, ok
}

// reportEnd reports the end of the task, unless the call is reported with it.
func (f *follower) reportEnd(result json.RawMessage, err error) {
	if f.origin == nil {
		return
	}
	call, ok := f.c.detached.take(detachedTask{f.server, f.id(), f.origin.String()})
	if !ok {
		return
	}
	q := tracked{record: call.CallRecord}
	q.answered(f.view, result)
	q.record.Method, q.record.Gen, q.record.Took = "tasks/result", f.view.Gen, time.Since(call.Began)
	if e := asErrorOrNil(err); e != nil {
		q.record.Kind, q.record.Outcome, q.record.Error = e.Kind, e.Outcome, recordedText(e)
	}
	q.record.Error = shownName(hideText(q.record.Error, f.id()))
	call.CallRecord = q.record
	f.c.opts.ended(call)
}
