package actors

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
)

// leftBehind keeps what sessions could not end (processes, directories), until
// Unregister or Close has reported it. Safe for concurrent use.
type leftBehind struct {
	mu      sync.Mutex
	byGen   map[uint64][]error // of registrations that have not ended; guarded by mu
	atClose []error            // of registrations that Close has ended; guarded by mu
}

// maxLeftErrors is how many errors of one registration are kept: the latest.
const maxLeftErrors = 8

const leftHint = "end what is left by hand"

// recordLeft records and logs what a session has left behind, once for each
// incarnation. Call it before the release of the session is reported. It does not wait
// for the log.
func (rt *Runtime) recordLeft(inc *incarnation) {
	inc.recorded.Do(func() {
		err := inc.session.Left()
		if err == nil || !rt.leftBehind.add(inc.gen, err) {
			return
		}
		rt.logger.Line(func(log *zerolog.Logger) {
			log.Warn().Str("server", inc.server).Uint64("epoch", inc.epoch).Err(err).
				Msg("the end of a server has left something behind")
		})
	})
}

// add records an error of a registration. It reports false if the error is known.
func (l *leftBehind) add(gen uint64, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.byGen[gen] {
		if errors.Is(known, err) {
			return false
		}
	}
	if l.byGen == nil {
		l.byGen = map[uint64][]error{}
	}
	all := append(l.byGen[gen], err)
	l.byGen[gen] = all[max(0, len(all)-maxLeftErrors):]
	return true
}

// take removes and returns what a registration has left; nil if nothing.
func (l *leftBehind) take(name string, gen uint64, closing bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.ofLocked(name, gen)
	if all := l.byGen[gen]; len(all) > 0 && closing {
		l.atClose = append(l.atClose, fmt.Errorf("server %q: %w", name, joinErrors(all)))
	}
	delete(l.byGen, gen)
	return err
}

// of is what a registration has left so far; nil if nothing.
func (l *leftBehind) of(name string, gen uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ofLocked(name, gen)
}

func (l *leftBehind) ofLocked(name string, gen uint64) error {
	all := l.byGen[gen]
	if len(all) == 0 {
		return nil
	}
	return &mcpvisor.Error{Server: name, Gen: gen, Kind: mcpvisor.ErrLeftBehind, Cause: joinErrors(all), Hint: leftHint}
}

// afterClose is what Close has left; nil if nothing.
func (l *leftBehind) afterClose() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.atClose) == 0 {
		return nil
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrLeftBehind, Cause: joinErrors(l.atClose), Hint: leftHint}
}

// joinErrors joins one or more errors in one line.
func joinErrors(all []error) error {
	joined := all[0]
	for _, err := range all[1:] {
		joined = fmt.Errorf("%w; %w", joined, err)
	}
	return joined
}
