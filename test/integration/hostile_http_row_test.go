//go:build linux

package integration

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// httpShortTimeout is the timeout of calls that are never answered.
const httpShortTimeout = 150 * time.Millisecond

// httpSucceeds is a row whose call succeeds.
func httpSucceeds(name string) httpRow { return httpRow{name: name} }

// httpFails is a row whose call fails with this error, while the session is kept.
func httpFails(name string, kind error, outcome mcpvisor.Outcome, says string) httpRow {
	return httpRow{name: name, call: &wantError{kind, outcome, says}}
}

// httpUnreadable is a row whose call fails because its answer cannot be read.
func httpUnreadable(name, says string) httpRow {
	return httpFails(name, mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, says)
}

// httpRefused is a row whose call fails because the server answered something else.
func httpRefused(name, says string) httpRow {
	return httpFails(name, mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, says)
}

// httpTooManyValues is a row whose call fails because its answer, of an allowed length,
// holds too many JSON values to be decoded. Counting them costs a few times the length
// of the answer.
func httpTooManyValues(name string) httpRow {
	return httpRefused(name, "too large to decode").allocating(4*maxAllocation).with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 })
}

// httpTimesOut is a row whose call ends by its own timeout.
func httpTimesOut(name string) httpRow {
	r := httpFails(name, mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown, "timed out")
	r.timeout = httpShortTimeout
	return r
}

// httpUnstartable is a row in which Register fails.
func httpUnstartable(name, says string) httpRow {
	return httpRow{name: name, start: &wantError{mcpvisor.ErrStart, "", says}}
}

// in sets the eras of the row. The default is every era of the misbehaviour.
func (r httpRow) in(eras ...mcpvisor.Era) httpRow {
	r.eras = eras
	return r
}

// with changes the specification of the server; label is added to the name of the
// subtest.
func (r httpRow) with(about string, change func(*mcpvisor.ServerSpec)) httpRow {
	r.label, r.spec = about, change
	return r
}

// allocating bounds the bytes that the call may allocate.
func (r httpRow) allocating(bytes uint64) httpRow {
	r.memory = bytes
	return r
}

// withTimeout sets the timeout of the call.
func (r httpRow) withTimeout(timeout time.Duration) httpRow {
	r.timeout = timeout
	return r
}

// replacing marks a row whose session ends with the call, so that the next session
// serves.
func (r httpRow) replacing() httpRow {
	r.replaced = true
	return r
}

// returning sets the text that the call must return.
func (r httpRow) returning(text string) httpRow {
	r.text = text
	return r
}

// checking adds a check after the call.
func (r httpRow) checking(look func(*httpRun)) httpRow {
	r.check = look
	return r
}

// doing replaces the call and the check of the session after it.
func (r httpRow) doing(instead func(*httpRun)) httpRow {
	r.act = instead
	return r
}

// statusRows makes one row for each HTTP status that a call is answered with.
func statusRows(row func(name, says string) httpRow, says string, statuses ...int) (rows []httpRow) {
	for _, status := range statuses {
		text := says
		if text == "" {
			text = fmt.Sprintf("HTTP %d", status)
		}
		r := row(fmt.Sprintf("call/status-%d", status), text)
		if status%2 == 1 && status > 404 { // one era is enough for these, which are all handled alike
			r = r.in(mcpvisor.EraModern)
		}
		rows = append(rows, r)
	}
	return rows
}
