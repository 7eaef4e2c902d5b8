package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
)

// Answers and notifications take turns: a peer that reads slowly gets both.
func TestOutbox_alternates(t *testing.T) {
	out := newOutbox(defaultLimits(), notices.New[*subscription]())
	out.notify.SetLogLevel(0)
	const each = 10
	for i := range each {
		r := newRequest(t.Context(), numbered("ping", "")(i), out)
		require.True(t, out.addAnswer(r, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}))
		out.notify.ReportLog(mcpvisor.LogMessage{Level: "info", Text: "x"})
	}
	for range each {
		answers := 0
		for range 2 {
			m, ended := out.next()
			require.NotNil(t, m)
			if ended != nil {
				answers++
			}
		}
		require.Equal(t, 1, answers, "one of two is an answer")
	}
	m, _ := out.next()
	require.Nil(t, m)
}

// The progress of a canceled request is not sent, though the request has not ended yet.
func TestOutbox_drops_progress_of_a_canceled_request(t *testing.T) {
	out := newOutbox(defaultLimits(), notices.New[*subscription]())
	report := func(id int) *request {
		r := newRequest(t.Context(), numbered("tools/call", "")(id), out)
		r.token = fmt.Append(nil, id)
		out.addProgress(r, mcpvisor.Progress{Progress: 1})
		return r
	}
	report(1).canceled.Store(true)
	report(2)
	m, _ := out.next()
	require.JSONEq(t, `{"progressToken":2,"progress":1}`, string(m.(*jsonrpc.Request).Params))
	m, _ = out.next()
	require.Nil(t, m)
}

// A notification that is too long is not read: here a cancellation, which has no effect.
func TestNotification_that_is_too_long(t *testing.T) {
	limits := Limits{}.withDefaults()
	q := newRequests(&limits, func(*request) {}, func() {})
	c := &connection{ctx: t.Context()}
	c.made.Store(q)
	call := newRequest(t.Context(), numbered("tools/call", "")(0), nil)
	require.NoError(t, q.admit(t.Context(), call))
	cancellation := func(bytes int) *jsonrpc.Request {
		const text = `{"requestId":1,"reason":""}`
		return &jsonrpc.Request{Method: "notifications/cancelled",
			Params: json.RawMessage(strings.Replace(text, `""`, `"`+strings.Repeat("x", bytes-len(text))+`"`, 1))}
	}
	c.receiveNotification(cancellation(maxNotificationBytes + 1))
	require.False(t, call.canceled.Load())
	require.NoError(t, call.ctx.Err())
	c.receiveNotification(cancellation(maxNotificationBytes))
	require.True(t, call.canceled.Load())
	require.Error(t, call.ctx.Err())
}
