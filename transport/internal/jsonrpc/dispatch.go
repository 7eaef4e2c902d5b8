package jsonrpc

// Dispatch handles a notification that concerns a request in flight or the session as a
// whole: progress, changed lists, updated resources, log messages and acknowledgements.
// It counts in d the notifications that are malformed, unmatched or too many. It reports
// false for every other message, which the caller handles.
func (n *Notifications) Dispatch(env *Envelope, t *Table, d *Discarded) (handled bool) {
	if env.Method == nil || env.ID != nil || env.Malformed {
		return false
	}
	if string(env.Method) == MethodProgress {
		n.handleProgress(env.Params, t, d)
		return true
	}
	switch n.Handle(env.Method, env.Params) {
	case NotHandled:
		return false
	case Malformed:
		d.Malformed.Add(1)
	case Dropped:
		d.Dropped.Add(1)
	}
	return true
}

// handleProgress restarts the idle clock of the request that a progress notification
// names, and queues the report for its caller (MCP, utilities, progress).
func (n *Notifications) handleProgress(params []byte, t *Table, d *Discarded) {
	token, report, ok := ReadProgress(params, n)
	if !ok {
		d.Malformed.Add(1)
		return
	}
	to, found := t.Progressed(token)
	switch {
	case !found:
		d.Unmatched.Add(1)
	case to != nil && !to.Push(report):
		d.Dropped.Add(1)
	}
}
