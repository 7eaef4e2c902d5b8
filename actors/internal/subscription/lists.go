package subscription

import (
	"context"
	"sync"
)

// lists holds the stream about the lists. On a shared pipe the stream is replaced after
// streams about resources have ended, in a goroutine of its own: that waits for the
// server, and no caller should. At most one such goroutine runs. It ends with the session,
// as all streams do.
//
// mu guards all fields.
type lists struct {
	mu      sync.Mutex
	stream  *stream   // nil before the first run
	after   []*stream // the next replacement waits until these have ended
	reopen  bool      // a replacement is due
	running bool      // the goroutine that replaces the stream runs
}

func (l *lists) get() *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

func (l *lists) set(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = s
}

// request notes that the stream is to be replaced after others have ended. It reports
// whether the caller must start the goroutine.
func (l *lists) request(after []*stream) (start bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start = !l.running
	l.after, l.reopen, l.running = append(l.after, after...), true, true
	return start
}

// next returns the streams to wait for, if a replacement is due. Otherwise the goroutine
// must end.
func (l *lists) next() (after []*stream, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after, due = l.after, l.reopen
	l.after, l.reopen, l.running = nil, false, due
	return after, due
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
	l.lists.set(l.openStream(about, nil, gap))
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
	if !l.lists.request(others) {
		return nil
	}
	ended := make(chan struct{})
	l.config.Go(func() {
		defer close(ended)
		l.replaceLists()
	})
	return ended
}

// replaceLists replaces the stream about the lists until no replacement is due.
func (l *Listener) replaceLists() {
	for after, due := l.lists.next(); due; after, due = l.lists.next() {
		for _, s := range after {
			<-s.ended
		}
		old := l.lists.get()
		if old.isRejected() || l.config.Session.Cause() != nil {
			continue
		}
		old.stop()
		<-old.ended
		l.openLists(true)
	}
}
