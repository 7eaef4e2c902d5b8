package facade

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/monitor"
)

// taskName names a task for monitor.EndedCall.Task, without its id, which is a secret.
func taskName(server, id, origin string) string {
	return digest([]byte(server + "\n" + id + "\n" + origin))
}

// reportEnd reports the end of the task, unless the call is reported with it.
func (f *follower) reportEnd(result json.RawMessage, err error) {
	if f.origin == nil || !f.o.detached || f.c.opts.ended == nil {
		return
	}
	q := tracked{record: monitor.CallRecord{Server: f.server, Gen: f.view.Gen, Method: "tools/call", Target: f.tool}}
	q.answered(f.view, result)
	if q.record.Method = "tasks/result"; f.o.keyed != nil {
		q.record.Began, q.record.Took = f.began, time.Since(f.began)
	}
	q.fail(asErrorOrNil(err))
	q.record.Error = shownName(hideText(q.record.Error, f.id()))
	f.c.opts.ended(monitor.EndedCall{CallRecord: q.record, Principal: shownName(f.o.Key.Principal), Task: taskName(f.server, f.id(), f.origin.String())})
}
