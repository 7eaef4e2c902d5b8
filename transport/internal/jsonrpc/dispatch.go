package jsonrpc

// Dispatch takes a notification of the server's that concerns a request in flight or
// the session as a whole: progress, changed lists, updated resources, log messages and
// acknowledgements. What cannot be read, or is too much, is counted in d. It reports
// false for every other message.
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

// handleProgress takes a progress notification.
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
