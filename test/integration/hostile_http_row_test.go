//go:build linux

package integration

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// httpShortTimeout is the clock of calls that are never answered.
const httpShortTimeout = 150 * time.Millisecond

// httpSucceeds: the call succeeds.
func httpSucceeds(name string) httpRow { return httpRow{name: name} }

// httpFails: the call ends in an error of this kind, and the session is kept.
func httpFails(name string, kind error, outcome mcpvisor.Outcome, says string) httpRow {
	return httpRow{name: name, call: &wantError{kind, outcome, says}}
}

// httpUnreadable: the call ends as one whose answer cannot be read.
func httpUnreadable(name, says string) httpRow {
	return httpFails(name, mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, says)
}

// httpRefused: the call ends as one to which something else was answered.
func httpRefused(name, says string) httpRow {
	return httpFails(name, mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, says)
}

// httpTooManyValues: the call ends because its answer, of a length that is allowed, holds
// too much to be decoded. Reading it costs a few times its length, decoding nothing.
func httpTooManyValues(name string) httpRow {
	return httpRefused(name, "too large to decode").allocating(4*maxAllocation).with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 })
}

// httpTimesOut: the call ends by its own clock.
func httpTimesOut(name string) httpRow {
	r := httpFails(name, mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown, "timed out")
	r.timeout = httpShortTimeout
	return r
}

// httpUnstartable: Register fails.
func httpUnstartable(name, says string) httpRow {
	return httpRow{name: name, start: &wantError{mcpvisor.ErrStart, "", says}}
}

// in says in which eras the row holds; by default in all that there are.
func (r httpRow) in(eras ...mcpvisor.Era) httpRow {
	r.eras = eras
	return r
}

// with changes the specification.
func (r httpRow) with(about string, change func(*mcpvisor.ServerSpec)) httpRow {
	r.label, r.spec = about, change
	return r
}

// allocating bounds what the call allocates.
func (r httpRow) allocating(bytes uint64) httpRow {
	r.memory = bytes
	return r
}

// withTimeout sets the call's own clock.
func (r httpRow) withTimeout(clock time.Duration) httpRow {
	r.timeout = clock
	return r
}

// replacing: the session ends with the call, and another one serves.
func (r httpRow) replacing() httpRow {
	r.replaced = true
	return r
}

// returning: the call brings this text.
func (r httpRow) returning(text string) httpRow {
	r.text = text
	return r
}

// checking looks at something more.
func (r httpRow) checking(look func(*httpRun)) httpRow {
	r.check = look
	return r
}

// doing replaces the call, and whatever follows it.
func (r httpRow) doing(instead func(*httpRun)) httpRow {
	r.act = instead
	return r
}

// statusRows are the rows of calls that are answered with one of these.
func statusRows(row func(name, says string) httpRow, says string, statuses ...int) (rows []httpRow) {
	for _, status := range statuses {
		text := says
		if text == "" {
			text = fmt.Sprintf("HTTP %d", status)
		}
		r := row(fmt.Sprintf("call/status-%d", status), text)
		if status%2 == 1 && status > 404 { // these are all alike
			r = r.in(mcpvisor.EraModern)
		}
		rows = append(rows, r)
	}
	return rows
}
