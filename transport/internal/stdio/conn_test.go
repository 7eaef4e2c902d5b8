package stdio

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestConn_matches_responses: each response reaches the caller of its request, in any
// order.
func TestConn_matches_responses(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	const calls = 50
	asked := map[string]<-chan outcome{}
	for i := range calls {
		asked[fmt.Sprintf(`{"n":%d}`, i)] = p.startRequest(t.Context(), transport.Request{Method: "m", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	ids := map[int64]string{}
	for range calls {
		m := p.readMessage()
		require.Equal(t, "m", m.Method)
		require.Greater(t, m.ID, jsonrpc.FirstID)
		require.NotContains(t, ids, m.ID)
		ids[m.ID] = string(m.Params)
	}
	for id, params := range ids { // in any order
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, params)
	}
	for params, ended := range asked {
		require.Equal(t, outcome{result: params}, <-ended)
	}
	require.Zero(t, p.discarded.Counts())
	require.NotZero(t, p.lastReceived.Time())
}

// TestConn_ids_of_the_handshake: responses to the go-sdk, calls, and requests of the server with
// the same ids do not disturb each other.
func TestConn_ids_of_the_handshake(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	id := p.readMessage().ID
	answered := p.callOfSDK(3)
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"id":%d}}`, id)
	p.writeLine(`{"jsonrpc":"2.0","id":3,"result":{"sdk":true}}`)
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) // a request of the server with the same id
	p.writeLine(`{"id":%d,"result":1}`, id)
	require.Equal(t, outcome{result: "1"}, <-ended)
	require.Equal(t, id, p.readMessage().ID, "the ping is answered")
	require.JSONEq(t, `{"sdk":true}`, string((<-answered).Result))
	require.Zero(t, p.discarded.Counts())
}

var errEnded = &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"bye"}}

// TestConn_end_fails_all_requests: the end of the connection fails requests in flight,
// queued lines, and later requests.
func TestConn_end_fails_all_requests(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	seen := p.startRequest(t.Context(), transport.Request{Method: "seen", Timeout: time.Hour})
	require.Equal(t, "seen", p.readMessage().Method)
	p.fillPipe()
	var waiting []<-chan outcome
	for range 20 {
		waiting = append(waiting, p.startRequest(t.Context(), transport.Request{Method: "waiting"}))
	}
	sent := make(chan error, 1)
	go func() { sent <- p.sendLine(t.Context(), []byte("x\n")) }()
	require.Eventually(t, func() bool {
		p.table.Mu.Lock()
		defer p.table.Mu.Unlock()
		return len(slices.Collect(p.table.Open.All())) == 21
	}, 10*time.Second, time.Millisecond)

	require.True(t, p.end(errEnded))
	require.False(t, p.end(&supervisor.Cause{Kind: supervisor.CauseProbe}), "only the first cause counts")
	check := func(got outcome, want mcpvisor.Outcome) {
		require.NotNil(t, got.err)
		require.Equal(t, mcpvisor.ErrCrashed, got.err.Kind)
		require.Equal(t, want, got.err.Outcome)
		require.Equal(t, []string{"bye"}, got.err.Stderr)
		cause := testutil.AsError[*supervisor.Cause](t, got.err)
		require.Same(t, errEnded, cause)
	}
	check(<-seen, mcpvisor.OutcomeUnknown)
	for _, ended := range waiting {
		check(<-ended, mcpvisor.OutcomeNotSent)
	}
	require.ErrorIs(t, <-sent, io.ErrClosedPipe)

	check(<-p.startRequest(t.Context(), transport.Request{Method: "late"}), mcpvisor.OutcomeNotSent)
	require.False(t, p.postLine(&outgoing{text: []byte("x\n")}))
	require.ErrorIs(t, p.sendLine(t.Context(), []byte("x\n")), io.ErrClosedPipe)
	require.Empty(t, slices.Collect(p.table.Open.All()))
}

// TestResponse_to_an_unsent_request: a server that guesses the id of a request cannot
// answer it before it was sent.
func TestResponse_to_an_unsent_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.startRequest(t.Context(), transport.Request{Method: "first"})
		synctest.Wait()
		second := p.startRequest(t.Context(), transport.Request{Method: "second"})
		synctest.Wait()
		p.writeLine(`{"id":%d,"result":"forged"}`, p.table.IDs.Last())
		p.writeProgress(p.table.IDs.Last(), 1) // nor report progress of it
		synctest.Wait()
		for _, ended := range []<-chan outcome{first, second} {
			m := p.readMessage()
			p.writeLine(`{"id":%d,"result":%q}`, m.ID, m.Method)
			require.Equal(t, outcome{result: `"` + m.Method + `"`}, <-ended)
		}
		require.Equal(t, mcpvisor.Discarded{Unmatched: 2}, p.discarded.Counts())
	})
}

// TestConn_responses: how each form of a response ends its call.
func TestConn_responses(t *testing.T) {
	p := newPeer(t, osPipe, 4<<10)
	long := strings.Repeat("x", 8<<10)
	for name, c := range map[string]struct {
		line   string // ID stands for the id
		result string
		kind   mcpvisor.ErrorKind
		text   string
	}{
		"verbatim":            {`{"jsonrpc":"2.0","id":ID,"result": {"b" : 1.0,"a":"\u00e9"} }`, `{"b" : 1.0,"a":"\u00e9"}`, "", ""},
		"null":                {`{"id":ID,"result":null}`, `null`, "", ""},
		"id as a string":      {`{"id":"ID","result":1}`, `1`, "", ""},
		"id as a fraction":    {`{"id":ID.0,"result":1}`, `1`, "", ""},
		"with carriage":       {`{"id":ID,"result":1}` + "\r", `1`, "", ""},
		"behind a mark":       {"\xef\xbb\xbf" + `{"id":ID,"result":1}`, `1`, "", ""},
		"in a batch":          {`[7,{"id":ID,"result":1}]`, `1`, "", ""},
		"behind a banner":     {"Server v1.0 running\n{half a line\n" + `{"id":ID,"result":1}`, `1`, "", ""},
		"behind a long line":  {long + "\n" + `{"id":ID,"result":1}`, `1`, "", ""},
		"error":               {`{"id":ID,"error":{"code":-32602,"message":"no such thing","data":[1]}}`, "", mcpvisor.ErrRPC, "no such thing"},
		"error and result":    {`{"id":ID,"result":null,"error":{"code":1,"message":"m"}}`, "", mcpvisor.ErrRPC, "m"},
		"result, error null":  {`{"id":ID,"result":2,"error":null}`, `2`, "", ""},
		"error, a bare text":  {`{"id":ID,"error":"out of disk space"}`, "", mcpvisor.ErrRPC, "out of disk space"},
		"error, unreadable":   {`{"id":ID,"error":[1]}`, "", mcpvisor.ErrProtocol, "cannot be read"},
		"malformed":           {`{"id":ID,"result":{"a":tru}}`, "", mcpvisor.ErrProtocol, "not valid JSON"},
		"too long":            {`{"id":ID,"result":"` + long + `"}`, "", mcpvisor.ErrProtocol, "longer than 4096 bytes"},
		"too long, id behind": {`{"result":"` + long + `","id":ID}`, "", mcpvisor.ErrProtocol, "raise Limits.MaxMessageBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
			id := p.readMessage().ID
			p.writeLine("%s", strings.ReplaceAll(c.line, "ID", fmt.Sprint(id)))
			got := <-ended
			require.Equal(t, c.result, got.result)
			if c.kind == "" {
				require.Nil(t, got.err)
				return
			}
			require.NotNil(t, got.err)
			require.Equal(t, c.kind, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeAnswered, got.err.Outcome)
			require.Contains(t, got.err.Error(), c.text)
		})
	}
	require.Equal(t, mcpvisor.Discarded{Malformed: 3, Oversize: 3}, p.discarded.Counts())
}

// TestConn_result_is_not_overwritten: lines that are read later do not overwrite a
// result, large or small.
func TestConn_result_is_not_overwritten(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	var results []<-chan outcome
	texts := []string{}
	for i, size := range []int{10, jsonrpc.LargeMessage, 1 << 20, 100, 3 * jsonrpc.LargeMessage, 20} {
		results = append(results, p.startRequest(t.Context(), transport.Request{Method: "m"}))
		texts = append(texts, `"`+strings.Repeat(string(rune('a'+i)), size)+`"`)
		p.writeLine(`{"id":%d,"result":%s}`, p.readMessage().ID, texts[i])
	}
	for i, ended := range results {
		require.Equal(t, texts[i], (<-ended).result)
	}
}

// TestJoinedLine: a response is served although its line holds something else, too. The line
// is counted, and its reason can be read.
func TestJoinedLine(t *testing.T) {
	long := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for name, c := range map[string]struct {
		line      string // A and B are the responses
		malformed uint64
		reason    string
	}{
		"two_threads":       {"AB\n", 1, reasonJoined},
		"spaces_between":    {" A \t B\n", 1, reasonJoined},
		"nul_after":         {"A\x00\nB\x00\r", 2, reasonJoined},
		"nul_before":        {"\x00A\n\x00B", 2, reasonJoined},
		"nul_between":       {"A\x00\x00B\x00", 1, reasonJoined},
		"log_line_after":    {"ABINFO done", 1, jsonrpc.StrayLog},
		"log_object_before": {`{"level":"info"}AB`, 2, reasonJoined},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{"short", long} {
				p := newPeer(t, osPipe, 8<<20)
				one, two := p.startRequest(t.Context(), transport.Request{Method: "m"}), p.startRequest(t.Context(), transport.Request{Method: "m"})
				a, b := p.readMessage().ID, p.readMessage().ID
				p.writeLine("%s", strings.NewReplacer("A", answerLine(a, text), "B", answerLine(b, text)).Replace(c.line))
				want := outcome{result: `"` + text + `"`}
				require.Equal(t, []outcome{want, want}, []outcome{<-one, <-two})
				p.ping() // the lines before are handled
				require.Equal(t, mcpvisor.Discarded{Malformed: c.malformed}, p.discarded.Counts())
				require.Equal(t, c.reason, p.remarks.StrayOutput(p.redactor).Reason)
			}
		})
	}
}

// TestJoinedLine_half: of two responses that were written into each other, the complete one
// is served, and the other one fails at once.
func TestJoinedLine_half(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	one := p.startRequest(t.Context(), transport.Request{Method: "m"})
	a := p.readMessage().ID
	two := p.startRequest(t.Context(), transport.Request{Method: "m"})
	p.writeLine(`%s{"id":%d,`+"\n"+`"result":2}`, answerLine(a, "x"), p.readMessage().ID)
	require.Equal(t, outcome{result: `"x"`}, <-one)
	require.ErrorContains(t, (<-two).err, "over several lines")
}

// TestJoinedLine_part_of_something_else: an object within a text that is no message is not
// taken for one.
func TestJoinedLine_part_of_something_else(t *testing.T) {
	id := jsonrpc.FirstID + 1
	for _, text := range []string{
		"A,", "A]", "A}", "A:", "\"A\"", "[A", "x A", "{\"a\":A", "{\"a\":1},A", "{\n\"a\": 1, \"b\": [\nAA\n", "{\"a\":1} x", "\x00",
	} {
		c := newConn(jsonrpc.NewLifetime(), strings.NewReader(strings.ReplaceAll(text, "A", answerLine(id, "x"))), io.Discard, lineLimit(1<<20))
		require.ErrorIs(t, c.readAll(), io.EOF)
		require.Equal(t, mcpvisor.Discarded{Malformed: uint64(1 + strings.Count(strings.TrimSpace(text), "\n"))}, c.discarded.Counts(), text)
	}
}

// TestJoinedLine_many: a long line of objects takes no longer than as many lines.
func TestJoinedLine_many(t *testing.T) {
	const many = 100_000
	c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
	c.ReceiveLine([]byte(strings.Repeat("{}", many) + answerLine(jsonrpc.FirstID+1, "x")))
	require.Equal(t, mcpvisor.Discarded{Malformed: many + 1, Unmatched: 1}, c.discarded.Counts())
}

func answerLine(id int64, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%q}`, id, text)
}

// TestBatch checks that every message of a batch is handled, whatever else the batch
// holds. A batch within a batch is malformed.
func TestBatch(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	one, two := p.startRequest(t.Context(), transport.Request{Method: "m"}), p.startRequest(t.Context(), transport.Request{Method: "m"})
	a, b := p.readMessage().ID, p.readMessage().ID
	long := `"` + strings.Repeat("x", 3*jsonrpc.LargeMessage) + `"`
	p.writeLine(` [ 7 , {"id":%d,"result":%s},null, [{"id":%d,"result":"nested"}],"text", {"a":1} ,{"jsonrpc":"2.0","id":"in the batch","method":"ping"},{"id":%d,"result":%s} ] `,
		a, long, b, b, long)
	require.ElementsMatch(t, []outcome{{result: long}, {result: long}}, []outcome{<-one, <-two})
	require.Equal(t, `"in the batch"`, string(p.readRefusal().ID))
	require.Equal(t, mcpvisor.Discarded{Malformed: 5}, p.discarded.Counts())
}

// TestBatch_malformed checks that no message of an incomplete batch is handled.
func TestBatch_malformed(t *testing.T) {
	for _, message := range []string{`[{"jsonrpc":"2.0","method":"m"}`, `[{"jsonrpc":"2.0","method":"m"}{}]`, `[{"jsonrpc":"2.0","method":"m"},]`, `[]x`} {
		c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
		c.ReceiveLine([]byte(message))
		require.Equal(t, mcpvisor.Discarded{Malformed: 1}, c.discarded.Counts(), message)
	}
}

// TestSplitMessage: a response over several lines fails its own call at once, and no
// other call.
func TestSplitMessage(t *testing.T) {
	testutil.RunInBubble(t, "in_the_handshake", func(t *testing.T) {
		d := NewDialer(mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: replyServer(func(_ io.Writer, e jsonrpc.Envelope) string {
			return "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": " + string(e.ID) + ",\n  \"result\": {\n    \"capabilities\": {}\n  }\n}"
		})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		began := time.Now()
		require.ErrorContains(t, s.Open(t.Context()), "over several lines")
		require.Less(t, time.Since(began), time.Second)
	})
	t.Run("cut_short", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine("{\n  \"id\": %d,", id) // the rest is never written
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.EqualValues(t, 2, p.discarded.Counts().Malformed)
	})
	t.Run("too_long", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.writeLine("{\n\"id\": %d,\n\"result\": [", p.readMessage().ID)
		for range maxSplitBytes/100 + 1 {
			p.writeLine(`"%s",`, strings.Repeat("x", 100))
		}
		require.ErrorContains(t, (<-ended).err, "over several lines")
		p.writeLine("1]}")
		ended = p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
		require.Equal(t, outcome{result: "1"}, <-ended)
	})
}

// TestErrorWithoutID: an error without an id fails the only request in flight, unless that is
// answered in time. Whether the server works on the request is not known.
func TestErrorWithoutID(t *testing.T) {
	const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	for name, line := range map[string]string{
		"null":    parseError,
		"missing": `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
			id := p.readMessage().ID
			p.writeLine("%s", line)
			got := <-ended
			require.Equal(t, mcpvisor.ErrRPC, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
			require.ErrorContains(t, got.err, "Parse error")
			require.Zero(t, p.discarded.Counts())
			require.Contains(t, string(p.readMessage().Params), fmt.Sprintf(`"requestId":%d`, id), "the request is canceled")
		})
	}
	t.Run("before_the_answer", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine("%s\n%s\n"+`{"id":%d,"result":1}`, parseError, parseError, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 1}, p.discarded.Counts(), "the second one is only recorded")
	})
	testutil.RunInBubble(t, "before_progress", func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Timeout: time.Minute})
		id := p.readMessage().ID
		p.writeLine(parseError)
		p.writeProgress(id, 1) // the tool runs
		time.Sleep(30 * time.Second)
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)

		ended = p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Timeout: time.Minute})
		id = p.readMessage().ID
		p.writeLine(parseError)
		p.writeProgress(id, 1)
		go p.readMessage()
		require.Equal(t, mcpvisor.ErrTimeout, (<-ended).err.Kind)
		synctest.Wait()
	})
	testutil.RunInBubble(t, "before_a_handler_of_the_host", func(t *testing.T) {
		for _, answered := range []bool{true, false} {
			p := newPeer(t, memoryPipe, 1<<20)
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
			id := p.readMessage().ID
			p.writeLine(parseError)
			synctest.Wait()
			restart := p.table.PauseClocks(0) // the server requests an input: it works on the call
			time.Sleep(300 * time.Millisecond)
			restart(answered)
			time.Sleep(59 * time.Second)
			p.writeLine(`{"id":%d,"result":1}`, id)
			require.Equal(t, outcome{result: "1"}, <-ended, "the idle limit is what it was")
		}
	})
	testutil.RunInBubble(t, "several_in_flight", func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		var log strings.Builder
		p.serverRequests.Handler = inbound.NewHandlerPool("s", transport.Options{Logger: zerolog.New(&log)}).NewHandler(jsonrpc.NewLifetime())
		first := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
		p.readMessage()
		second := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
		p.readMessage()
		for range 10 {
			p.writeLine(parseError)
		}
		go func() { p.readMessage(); p.readMessage() }()
		defer synctest.Wait()
		for _, ended := range []<-chan outcome{first, second} {
			got := <-ended
			require.Equal(t, mcpvisor.ErrTimeout, got.err.Kind)
			require.ErrorContains(t, got.err, "an error that names no request: Parse error")
		}
		require.Equal(t, mcpvisor.Discarded{Unmatched: 10}, p.discarded.Counts())
		require.Equal(t, 1, strings.Count(log.String(), "Parse error"))
	})
	t.Run("beside_an_open_stream", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		stream := p.startRequest(t.Context(), transport.Request{Method: "subscriptions/listen", Stream: &transport.Stream{}})
		id := p.readMessage().ID
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.readMessage()
		p.writeLine(parseError)
		require.ErrorContains(t, (<-ended).err, "Parse error")
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-stream)
	})
	t.Run("about_a_notification", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}`)
		p.writeLine(`{"error":{"code":-32700,"message":"a line of a log"}}`)
		p.writeLine(`{"jsonrpc":"2.0","error":"a line of a log"}`)
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 1, Malformed: 2}, p.discarded.Counts())
	})
	testutil.RunInBubble(t, "in_the_handshake", func(t *testing.T) {
		d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: replyServer(func(io.Writer, jsonrpc.Envelope) string {
			return parseError
		})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		began := time.Now()
		require.ErrorContains(t, s.Open(t.Context()), "Parse error")
		require.Less(t, time.Since(began), time.Second)
	})
}
