package process

import (
	"sync"
	"time"
)

// retags tags what the servers of this process have started, once more.
var retags retagger

// retagger tags the descendants of each server again, retagDelay after its start: a fork
// that had begun before the server was tagged has missed the tag. Most servers have started
// nothing then, and one look at the new processes tells that for all servers of about the
// same age. To look at each server by itself costs a dozen files of /proc for each, and as
// much again when the kernel forgets these at the end of the server.
type retagger struct {
	mu    sync.Mutex           // guards what follows
	due   map[*Child]time.Time // the servers that were not looked at, and when they are to be
	timer *time.Timer          // nil while due is empty
}

// retagSlack is how much later than retagDelay a server may be looked at, so that one look
// serves many.
const retagSlack = retagDelay / 4

// add has the descendants of a server tagged later, unless it is removed before that.
func (r *retagger) add(c *Child) {
	if c.tag == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = make(map[*Child]time.Time)
	}
	r.due[c] = time.Now().Add(retagDelay)
	if r.timer == nil {
		r.timer = time.AfterFunc(retagDelay, r.run)
	}
}

func (r *retagger) remove(c *Child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, c)
	if len(r.due) == 0 && r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// run looks at the servers that are old enough.
func (r *retagger) run() {
	var servers []*Child
	var since *procList
	r.mu.Lock()
	for c, at := range r.due {
		if time.Until(at) > 0 {
			continue
		}
		if servers = append(servers, c); len(servers) == 1 {
			since = c.group.since
		}
		since = since.earlier(c.group.since)
		delete(r.due, c)
	}
	r.timer = nil
	if len(r.due) > 0 {
		r.timer = time.AfterFunc(retagSlack, r.run)
	}
	r.mu.Unlock()
	if len(servers) == 0 {
		return
	}
	parents, known := procTable.parentsSince(since, mostStats(len(servers)))
	for _, c := range servers {
		if parents[c.PID()] || !known {
			c.retag()
		} else {
			c.markRetagged()
		}
	}
}

// mostStats is how many new processes are read at most for some servers. If there are more,
// it is cheaper to look at each server.
func mostStats(servers int) int { return 32 + 8*servers }

// parentsSince returns the ids of the processes that have started one of those that are not
// in the list since. Servers are not counted as started. It reports false if the processes
// cannot be listed, or if more than most would have to be read.
func (s *procScanner) parentsSince(since *procList, most int) (parents map[int]bool, ok bool) {
	list, err := descriptors.list()
	if err != nil {
		return nil, false
	}
	s.setLatest(list)
	started := s.candidates(list, since)
	if len(started) > most {
		return nil, false
	}
	parents = make(map[int]bool)
	buf := make([]byte, statBufferSize)
	for _, c := range started {
		st, err := readStat(c.pid, buf)
		if err != nil {
			return nil, false
		}
		parents[st.parent] = true
	}
	return parents, true
}
