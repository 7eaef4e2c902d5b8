package subscription

import "context"

// listsStream is the stream about the lists. On a shared pipe it is replaced after streams about resources have
// ended, in a goroutine of its own: that waits for the server, and no caller should. At most one such goroutine runs.
// It ends with the session, as all streams do. Listener.mu guards all fields.
type listsStream struct {
	stream  *stream   // nil before the first run
	after   []*stream // the next replacement waits until these have ended
	due     bool      // a replacement is due
	running bool      // the goroutine that replaces the stream runs
}

// aboutLists returns the stream about the lists; nil before the first run.
func (l *Listener) aboutLists() *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists.stream
}

// openLists opens the stream about the lists whose changes the server announces.
// gap: there was a stream before, and changes may have been missed.
func (l *Listener) openLists(gap bool) {
	var about filter
	if caps := l.config.Session.Info().Capabilities; caps != nil {
		about.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
		about.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
		about.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
	}
	s := l.openStream(about, nil, gap)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists.stream = s
}

// reopenLists replaces the stream about the lists when the streams that are ending have
// ended. The new one makes up for the gap. During the start of a session it waits until
// that is done, or ctx ends: the lists are read next.
func (l *Listener) reopenLists(ctx context.Context, starting bool) {
	if done := l.replaceListsAfter(l.ending); done != nil && starting {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// replaceListsAfter has the stream about the lists replaced after others have ended. done is
// closed when that has happened; nil if a replacement is at work already.
func (l *Listener) replaceListsAfter(others []*stream) (done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists.after, l.lists.due = append(l.lists.after, others...), true
	if l.lists.running {
		return nil
	}
	l.lists.running = true
	ended := make(chan struct{})
	l.config.Go(func() {
		defer close(ended)
		for l.replaceLists() {
		}
	})
	return ended
}

// replaceLists replaces the stream about the lists, if that is due. Otherwise it reports false, and the goroutine ends.
func (l *Listener) replaceLists() bool {
	l.mu.Lock()
	after, old, due := l.lists.after, l.lists.stream, l.lists.due
	l.lists.after, l.lists.due, l.lists.running = nil, false, due
	l.mu.Unlock()
	if !due {
		return false
	}
	for _, s := range after {
		<-s.ended
	}
	if !old.isRejected() && l.config.Session.Cause() == nil {
		old.stop()
		<-old.ended
		l.openLists(true)
	}
	return true
}
