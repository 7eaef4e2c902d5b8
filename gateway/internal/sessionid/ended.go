package sessionid

import (
	"slices"
	"time"
)

// MaxEnded bounds the ended sessions that are remembered. Beyond it the principal with the most is affected:
// those of its ids that expire first become valid again.
const MaxEnded = 100_000

// Ended remembers the sessions that clients have ended, until they expire. Not safe for concurrent use.
type Ended struct {
	most  int
	count int
	of    map[string]map[[nonceBytes]byte]time.Time // by principal
}

// NewEnded returns an empty Ended that remembers at most that many sessions.
func NewEnded(most int) Ended {
	return Ended{most: most, of: map[string]map[[nonceBytes]byte]time.Time{}}
}

// Has reports whether a client has ended the session.
func (e *Ended) Has(principal string, id [nonceBytes]byte) bool {
	_, ended := e.of[principal][id]
	return ended
}

// Add remembers that a client has ended a session.
func (e *Ended) Add(principal string, id [nonceBytes]byte, expiry time.Time) {
	if e.Has(principal, id) {
		return
	}
	if e.count >= e.most {
		e.makeRoom()
	}
	if e.of[principal] == nil {
		e.of[principal] = map[[nonceBytes]byte]time.Time{}
	}
	e.of[principal][id] = expiry
	e.count++
}

// makeRoom forgets sessions that have expired. If there are none, it forgets a tenth of those of the
// principal with the most, so that the next calls of Add need not search.
func (e *Ended) makeRoom() {
	now := time.Now()
	e.forget(func(_ string, expiry time.Time) bool { return !expiry.After(now) })
	if e.count < e.most {
		return
	}
	var largest string
	for principal, ended := range e.of {
		if len(ended) > len(e.of[largest]) {
			largest = principal
		}
	}
	expiries := make([]time.Time, 0, len(e.of[largest]))
	for _, expiry := range e.of[largest] {
		expiries = append(expiries, expiry)
	}
	slices.SortFunc(expiries, time.Time.Compare)
	last := expiries[len(expiries)/10]
	e.forget(func(principal string, expiry time.Time) bool { return principal == largest && !expiry.After(last) })
}

func (e *Ended) forget(which func(principal string, expiry time.Time) bool) {
	for principal, ended := range e.of {
		for id, expiry := range ended {
			if which(principal, expiry) {
				delete(ended, id)
				e.count--
			}
		}
		if len(ended) == 0 {
			delete(e.of, principal)
		}
	}
}
