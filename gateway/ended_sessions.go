package gateway

import (
	"slices"
	"time"
)

// maxEnded bounds the sessions that were ended and have not expired. Beyond it the ids of a principal that has ended
// the most become valid again, those that expire first.
const maxEnded = 100_000

// endedSessions are those ended by DELETE, until they expire. The lock is that of the Server.
type endedSessions struct {
	most  int
	count int
	of    map[string]map[nonce]time.Time // by principal
}

func newEndedSessions(most int) endedSessions {
	return endedSessions{most: most, of: map[string]map[nonce]time.Time{}}
}

func (e *endedSessions) has(principal string, id nonce) bool {
	_, ended := e.of[principal][id]
	return ended
}

// add notes that a session has ended.
func (e *endedSessions) add(principal string, id nonce, expiry time.Time) {
	if e.has(principal, id) {
		return
	}
	if e.count >= e.most {
		e.makeRoom()
	}
	if e.of[principal] == nil {
		e.of[principal] = map[nonce]time.Time{}
	}
	e.of[principal][id] = expiry
	e.count++
}

// makeRoom forgets those that have expired. If there are none it forgets a tenth of the principal that has the most, so
// that the next ones need not search.
func (e *endedSessions) makeRoom() {
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

func (e *endedSessions) forget(which func(principal string, expiry time.Time) bool) {
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
