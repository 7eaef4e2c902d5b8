package rules

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Desk keeps open questions until persons decide about them. The zero value is ready to be used. Safe for concurrent use.
// [Desk.Ask] is an [Asker].
type Desk struct {
	mu   sync.Mutex
	open map[string]*openQuestion // by id; guarded by mu
}

type openQuestion struct {
	question Question
	decided  chan Decision // has room for the only decision
}

// Ask waits for a decision about a question, or for the end of ctx.
func (d *Desk) Ask(ctx context.Context, q Question) (Decision, error) {
	o := &openQuestion{q, make(chan Decision, 1)}
	d.mu.Lock()
	if d.open == nil {
		d.open = map[string]*openQuestion{}
	}
	d.open[q.ID] = o
	d.mu.Unlock()
	select {
	case decision := <-o.decided:
		return decision, nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[q.ID] == o {
		delete(d.open, q.ID)
	}
	return Decision{}, context.Cause(ctx)
}

// Open returns the open questions, the oldest first.
func (d *Desk) Open() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Question, 0, len(d.open))
	for _, o := range d.open {
		all = append(all, o.question)
	}
	slices.SortFunc(all, func(a, b Question) int {
		if byTime := a.Asked.Compare(b.Asked); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Decide answers an open question. The first decision counts; a later one fails with [ErrNoQuestion].
func (d *Desk) Decide(id string, decision Decision) (Question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.open[id]
	if o == nil {
		return Question{}, ErrNoQuestion
	}
	delete(d.open, id)
	o.decided <- decision
	return o.question, nil
}
