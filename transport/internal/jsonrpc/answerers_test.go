package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// sentOwner is a request that the server may have received, unless it is false.
type sentOwner bool

func (o sentOwner) InFlight() bool { return bool(o) }
func (sentOwner) Expire() func()   { return nil }

// entryOf adds a request with these handlers to a table.
func entryOf(t *Table, method string, sent bool, h *transport.CallHandlers) *Entry {
	e := &Entry{Owner: sentOwner(sent)}
	r := transport.Request{Method: method}
	if h != nil {
		r.Caller = &transport.Caller{Handlers: h}
	}
	t.Add(e, true, &r)
	return e
}

func TestTable_AnswererOf(t *testing.T) {
	ann, bob := &transport.CallHandlers{}, &transport.CallHandlers{SampleTools: true}
	var table Table
	expect := func(call int64, h *transport.CallHandlers, id int64, ok bool) {
		t.Helper()
		handlers, of, known := table.AnswererOf(call, "roots/list")
		require.Equal(t, ok, known)
		if ok {
			require.Same(t, h, handlers)
			require.Equal(t, id, of)
		}
	}
	host := entryOf(&table, "tools/call", true, nil)
	entryOf(&table, "tools/call", true, nil)
	expect(0, nil, 0, true) // only the client
	expect(77, nil, 77, true)
	first := entryOf(&table, "tools/call", true, ann)
	expect(0, nil, 0, false)
	expect(first.ID, ann, first.ID, true)
	expect(host.ID, nil, host.ID, true)
	expect(77, nil, 0, false) // a call that has ended
	table = Table{}
	first = entryOf(&table, "prompts/get", true, ann)
	for _, method := range []string{"ping", "tools/list", "resources/subscribe", "tasks/get"} {
		entryOf(&table, method, true, nil)
	}
	entryOf(&table, "tools/call", false, bob) // the server has not seen it
	expect(-1, ann, first.ID, true)
	second := entryOf(&table, "resources/read", true, ann)
	expect(-1, ann, -1, true)
	table.Remove(first)
	table.Remove(second)
	expect(0, nil, 0, true) // none: the client
}

// A call that was given up counts for GivenUpGrace, or until it is answered.
func TestTable_GaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, bob := &transport.CallHandlers{}, &transport.CallHandlers{SampleTools: true}
		var table Table
		end := func(e *Entry) {
			table.GaveUp(e)
			table.Remove(e)
		}
		host := entryOf(&table, "tools/call", true, nil)
		end(host)
		require.Empty(t, table.answerers.givenUp, "no call has had handlers")
		known := func() bool { _, _, ok := table.AnswererOf(0, "roots/list"); return ok }
		gone := entryOf(&table, "tools/call", true, ann)
		require.False(t, known(), "the call of the client may ask")
		time.Sleep(GivenUpGrace)
		require.True(t, known())
		end(entryOf(&table, "tools/list", true, nil))
		end(gone)
		entryOf(&table, "tools/call", true, bob)
		require.False(t, known())
		time.Sleep(GivenUpGrace)
		require.False(t, known())
		time.Sleep(time.Nanosecond)
		require.True(t, known())
		require.Empty(t, table.answerers.givenUp)
		gone = entryOf(&table, "tools/call", true, ann)
		end(gone)
		require.False(t, known())
		table.AnsweredLate(gone.ID)
		require.True(t, known())
		for range maxGivenUp + 10 {
			end(entryOf(&table, "tools/call", true, bob))
		}
		require.Len(t, table.answerers.givenUp, maxGivenUp)
		require.False(t, known(), "more than are remembered")
		time.Sleep(2 * GivenUpGrace)
		end(entryOf(&table, "tools/call", true, bob))
		require.Len(t, table.answerers.givenUp, 1)
		require.True(t, known())
	})
}
