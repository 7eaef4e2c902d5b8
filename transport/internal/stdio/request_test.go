package stdio

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestRequest_answer_read_before_cancel: a caller whose context ends after the response
// was read gets the response, and all progress before it. The next call gets nothing of
// it.
func TestRequest_answer_read_before_cancel(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		for range 30 { // the order of the two events is random
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first, proceed := make(chan struct{}), make(chan struct{})
				reports := 0
				ended := p.startRequest(ctx, transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
					if reports++; reports == 1 {
						close(first)
						<-proceed
					}
				}})
				id := p.readMessage().ID
				p.writeProgress(id, 1)
				<-first
				p.writeProgress(id, 2)
				p.writeLine(`{"id":%d,"result":"old"}`, id)
				synctest.Wait() // both reports and the response have been read
				if cancels {
					cancel()
				}
				close(proceed)
				require.Equal(t, outcome{result: `"old"`}, <-ended)
				require.Equal(t, 2, reports)

				next := p.startRequest(t.Context(), transport.Request{Method: "next"})
				p.writeLine(`{"id":%d,"result":"new"}`, p.readMessage().ID)
				require.Equal(t, outcome{result: `"new"`}, <-next)
			})
		}
	}
}

// TestRequest_reused_entry_has_new_clocks: a request that reuses the memory of an
// earlier one has its own deadline.
func TestRequest_reused_entry_has_new_clocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		for range 20 {
			first := p.startRequest(t.Context(), transport.Request{Method: "first", Timeout: time.Second, TotalTimeout: time.Second})
			p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
			require.Equal(t, outcome{result: "1"}, <-first)
			time.Sleep(2 * time.Second)
			second := p.startRequest(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
			id := p.readMessage().ID
			time.Sleep(30 * time.Second)
			p.writeLine(`{"id":%d,"result":2}`, id)
			require.Equal(t, outcome{result: "2"}, <-second)
		}
	})
}

// TestRequest_total_timeout_alone: the total timeout bounds a request without an idle
// timeout.
func TestRequest_total_timeout_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		began := time.Now()
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", TotalTimeout: time.Minute})
		p.readMessage()
		read := make(chan transporttest.Message, 1)
		go func() { read <- p.readMessage() }()
		got := <-ended
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.InDelta(t, time.Minute, time.Since(began), float64(jsonrpc.SweepGrain))
		require.Equal(t, "notifications/cancelled", (<-read).Method)
	})
}

// TestRequest_timeouts_count_from_Began: what the caller has spent on a request before it is
// sent counts against both timeouts.
func TestRequest_timeouts_count_from_Began(t *testing.T) {
	for name, r := range map[string]transport.Request{
		"idle":  {Method: "m", Timeout: time.Minute, TotalTimeout: time.Hour},
		"total": {Method: "m", Timeout: time.Hour, TotalTimeout: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				r.Began = time.Now()
				time.Sleep(20 * time.Second)
				ended := p.startRequest(t.Context(), r)
				p.readMessage()
				read := make(chan transporttest.Message, 1)
				go func() { read <- p.readMessage() }()
				require.Equal(t, mcpvisor.KindTimeout, (<-ended).err.Kind)
				require.InDelta(t, time.Minute, time.Since(r.Began), float64(jsonrpc.SweepGrain))
				require.Equal(t, "notifications/cancelled", (<-read).Method)
			})
		})
	}
}

// TestRequest_keeps_no_params: the caller may reuse the memory of the parameters once its
// request has returned, even if the line is still being written.
func TestRequest_keeps_no_params(t *testing.T) {
	for name, size := range map[string]int{"in a batch": maxBatchBytes / 2, "a line of its own": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			params := []byte(`{"text":"` + strings.Repeat("a", size) + `"}`)
			want := string(params)
			ctx, cancel := context.WithCancel(t.Context())
			ended := p.startRequest(ctx, transport.Request{Method: "m", Params: params})
			_, err := p.in.Peek(1) // the server has read the beginning
			require.NoError(t, err)
			cancel()
			require.Equal(t, mcpvisor.KindCanceled, (<-ended).err.Kind)
			for i := range params {
				params[i] = 'x'
			}
			require.Equal(t, want, string(p.readMessage().Params))
		})
	}
}

// TestRequest_error_is_redacted: servers repeat secrets in their errors.
func TestRequest_error_is_redacted(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	p.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	p.writeLine(`{"id":%d,"error":{"code":1,"message":"bad key %s","data":["%[2]s"]}}`, p.readMessage().ID, transporttest.Secret)
	got := <-ended
	require.Contains(t, got.err.Error(), "bad key ***")
	raw, err := json.Marshal(got.err.Cause)
	require.NoError(t, err)
	require.NotContains(t, string(raw), transporttest.Secret)
	require.NotContains(t, got.err.Error(), transporttest.Secret)
}

// TestRequest_session_not_open: a request of a session that is not open, or could not be
// opened, is not sent.
func TestRequest_session_not_open(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s := d.NewSession()
	for _, kind := range []mcpvisor.ErrorKind{mcpvisor.KindUnavailable, mcpvisor.KindClosed} {
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, kind, e.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		s.Abort(transporttest.ErrGivenUp)
	}
}

// TestRequest_ends_once: each request ends once when responses, deadlines, cancellations
// and the end of the connection coincide.
func TestRequest_ends_once(t *testing.T) {
	for range 20 {
		p := newPeer(t, osPipe, 1<<20)
		var all []<-chan outcome
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			r := transport.Request{Method: "m"}
			if i%3 == 0 {
				r.Timeout = time.Duration(i) * 50 * time.Microsecond
			}
			all = append(all, p.startRequest(ctx, r))
			if i%4 == 1 {
				time.AfterFunc(time.Duration(i)*30*time.Microsecond, cancel)
			} else {
				defer cancel()
			}
		}
		for range 20 {
			if m := p.readMessage(); m.Method == "m" && m.ID%2 == 0 {
				p.writeLine(`{"id":%d,"result":%d}`, m.ID, m.ID)
			}
		}
		p.end(errEnded)
		for _, ended := range all {
			if got := <-ended; got.err == nil {
				require.NotEmpty(t, got.result)
			}
		}
		require.Zero(t, p.table.Open.Len())
	}
}
