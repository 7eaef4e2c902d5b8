package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
)

// largeResponse is a response with the limits and timeouts of a specification.
func largeResponse(raw string, spec mcpvisor.ServerSpec) *response {
	spec = spec.WithDefaults()
	return &response{raw: json.RawMessage(raw), view: &actors.View{Spec: &spec}, began: time.Now()}
}

// Decoding a large result gives the same results and errors as the go-sdk does.
func TestDecodeLarge_agrees_with_the_sdk(t *testing.T) {
	texts := []string{
		`{"content":[{"type":"text","text":"x"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"_meta":{"a":[1]},"isError":true}`,
		`{"\u0063ontent":[{"type":"text","text":"x"}],"structuredContent":[1,{"a":null}]}`,
		`{"content":1,"content":[{"type":"text","text":"x"}]}`,
		`{"content":null}`, `{"content":[null]}`, `{"content":"x"}`, `{"content":[],"_meta":1}`, `{"content":[],"_meta":null,"structuredContent":null}`,
		`{"content":[{"type":"hologram"}]}`, `{"content":[{"type":"resource","resource":null}]}`, `{}`, `{"content":{}}`,
		`{"content":[` + strings.Repeat(`{"type":"text","text":"`+strings.Repeat("y", 1000)+`"} , `, 2000) + `{"type":"text","text":"z"}]}`,
	}
	texts = append(texts, toolResults...)
	for _, raw := range texts {
		t.Run(raw[:min(len(raw), 60)], func(t *testing.T) {
			whole := new(mcp.CallToolResult)
			wrong := errors.Join(checkResult([]byte(raw)), whole.UnmarshalJSON([]byte(raw)))
			if wrong == nil {
				wrong = checkNoNil(whole)
			}
			got, err := decodeLarge(t.Context(), largeResponse(raw, mcpvisor.ServerSpec{}), decodeWholeToolResult)
			require.Equal(t, wrong == nil, err == nil, "%v, not %v", err, wrong)
			if err == nil {
				require.Equal(t, whole, got)
			}
		})
	}
}

// What is decoded for longer than its call lasts does not hold the caller, and holds its
// share of the buffer until it ends.
func TestDecodeLarge_ends_with_its_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := largeResponse(`{"content":[]}`, mcpvisor.ServerSpec{})
		buffer := budget.New(1000, nil)
		share := buffer.Share()
		r.share = &share
		end := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := decodeLarge(ctx, r, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			cancel()
			<-end
			return nil, nil
		})
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		share.Release()
		require.NotZero(t, buffer.Used(), "it is held by who decodes")
		close(end)
		synctest.Wait()
		require.Zero(t, buffer.Used())
	})
}

func TestDecodeToolResult_ends_with_its_context(t *testing.T) {
	const n = 100_000
	for name, raw := range map[string]string{
		"text":               `{"content":[` + strings.Repeat(`{"type":"text","text":""},`, n) + `{"type":"text","text":""}]}`,
		"images":             `{"content":[` + strings.Repeat(`{"type":"image","data":"","mimeType":""},`, n) + `{"type":"text","text":""}]}`,
		"structured content": `{"content":[],"structuredContent":[` + strings.Repeat(`{"a":0},`, n) + `0]}`,
		"metadata":           `{"content":[],"_meta":{"a":[` + strings.Repeat(`{"a":0},`, n) + `0]}}`,
	} {
		t.Run(name+"/ended by the caller", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := decodeToolResult(ctx, largeResponse(raw, mcpvisor.ServerSpec{}))
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		})
		t.Run(name+"/ended by the clock", func(t *testing.T) {
			view := &actors.View{Spec: &mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{Call: time.Nanosecond, CallTotal: time.Nanosecond}}}
			_, err := decodeToolResult(context.Background(), &response{raw: json.RawMessage(raw), view: view, began: time.Now().Add(-time.Hour)})
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		})
	}
}

// A result that waits for room in Limits.MaxBufferBytes before it is decoded ends with its call, also
// if the context of the caller has no end.
func TestDecodeToolResult_waits_for_room_within_its_call(t *testing.T) {
	for name, raw := range map[string]string{
		"text":  `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`,
		"image": `{"content":[{"type":"image","data":"` + strings.Repeat("aGkh", 1<<18) + `","mimeType":"image/png"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				buffer := budget.New(1, nil)
				other, share := buffer.Share(), buffer.Share()
				require.NoError(t, other.Grow(t.Context(), nil, 1<<20))
				r := largeResponse(raw, mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{Call: time.Minute}})
				r.share = &share
				began := time.Now()
				_, err := decodeToolResult(context.Background(), r)
				require.ErrorIs(t, err, mcpvisor.ErrTimeout)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.Equal(t, time.Minute, time.Since(began))
			})
		})
	}
}

// Task.Wait decodes a result that the task has had for longer than a call may take.
func TestTask_Wait_long_after_the_result_came(t *testing.T) {
	for name, raw := range map[string]string{
		"text":  `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`,
		"image": `{"content":[{"type":"image","data":"` + strings.Repeat("aGkh", 1<<18) + `","mimeType":"image/png"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			task := &Task{tool: "s/x", turn: make(chan struct{}, 1), answer: *largeResponse(raw, mcpvisor.ServerSpec{})}
			task.answer.began = time.Now().Add(-time.Hour)
			task.give()
			got, err := task.Wait(t.Context())
			require.NoError(t, err)
			require.Len(t, got.Content, 1)
		})
	}
}

// The timeout of a call, and so of decoding, begins after the queue; only CallTotal counts both.
func TestDecodeContext_after_a_queue(t *testing.T) {
	began := time.Now().Add(-50 * time.Second)
	for want, row := range map[time.Duration]mcpvisor.Timeouts{
		100 * time.Second: {Call: time.Minute, CallTotal: time.Hour},
		90 * time.Second:  {Call: time.Minute, CallTotal: 90 * time.Second},
	} {
		r := response{view: &actors.View{Spec: &mcpvisor.ServerSpec{Timeouts: row}}, began: began, queued: 40 * time.Second}
		ctx, cancel := r.decodeContext(context.Background())
		defer cancel()
		deadline, _ := ctx.Deadline()
		require.Equal(t, want, deadline.Sub(began))
	}
}

// The limits of results apply before anything is decoded.
func TestDecodeToolResult_limits(t *testing.T) {
	const n = 1 << 20
	decode := func(raw string, limits mcpvisor.Limits) (*mcp.CallToolResult, error) {
		return decodeToolResult(context.Background(), largeResponse(raw, mcpvisor.ServerSpec{Limits: limits}))
	}
	for name, row := range map[string]struct{ raw, want string }{
		"too many blocks":   {`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, n/3) + `{"type":"text","text":""}]}`, "Limits.MaxDecodedBytes"},
		"too many numbers":  {`{"content":[],"structuredContent":[` + strings.Repeat(`0,`, n) + `0]}`, "Limits.MaxElements"},
		"too much metadata": {`{"content":[],"_meta":{"a":[` + strings.Repeat(`[],`, n) + `0]}}`, "Limits.MaxElements"},
		"too much memory":   {`{"content":[],"structuredContent":[` + strings.Repeat(`{"a":0},`, n/2-10) + `0]}`, "Limits.MaxDecodedBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(row.raw, mcpvisor.Limits{MaxDecodedBytes: 128 << 20})
			require.ErrorIs(t, err, mcpvisor.ErrProtocol)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, "CallToolRaw returns it undecoded")
		})
	}
	t.Run("limits raised", func(t *testing.T) {
		_, err := decode(`{"content":[],"structuredContent":[`+strings.Repeat(`0,`, n)+`0]}`, mcpvisor.Limits{MaxElements: 2 * n})
		require.NoError(t, err)
	})
	for _, size := range []int{1 << 10, 1 << 20, 6 << 20} {
		t.Run(fmt.Sprintf("one image of %d bytes", size), func(t *testing.T) {
			got, err := decode(`{"content":[{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("QUJD", size/3)+`"}]}`, mcpvisor.Limits{})
			require.NoError(t, err)
			require.Len(t, got.Content[0].(*mcp.ImageContent).Data, size/3*3)
		})
	}
}

var toolResults = []string{
	`{"content":[{"type":"text","text":"hello"}]}`,
	`{"content":[{"text":"a\n\"b\" \u00e9 \ud83d\ude00","type":"text"}],"isError":true}`,
	`{"content":[]}`,
	` { "content" : [ {"type":"text","text":""} , {"type":"text","text":"b"} ] , "x":1 } `,
	`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":[1,2.5,null]}}`,
	`{"structuredContent":null,"content":[],"isError":false,"_meta":{"k":"v"}}`,
	`{"content":[],"resultType":"complete"}`,
	`{"content":[],"resultType":"input_required","inputRequests":{}}`,
	`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
	`{"content":[{"type":"text","text":"x","annotations":{"priority":1}}]}`,
	`{"content":[{"type":"text","text":"x"}],"content":[]}`,
	`{"content":[{"type":"text","text":"x","text":"y"}]}`,
	`{"content":[],"isError":true,"isError":false}`,
	`{"content":[],"inputRequests":{}}`,
	`{"content":[],"requestState":"x"}`,
	`{"content":null}`,
	`{}`,
	`{"Content":[]}`,
}

// An answer that is here is decoded although the context of the call has ended meanwhile, unless
// it is large: then the error is one of this package.
func TestDecodeToolResult_after_the_end_of_the_context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	image := func(bytes int) string {
		return `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("aaaa", bytes/4) + `"}]}`
	}
	for _, raw := range []string{`{"content":[{"type":"text","text":"x"}]}`, image(4)} {
		got, err := decodeToolResult(ctx, largeResponse(raw, mcpvisor.ServerSpec{}))
		require.NoError(t, err)
		require.Len(t, got.Content, 1)
	}
	_, err := decodeToolResult(ctx, largeResponse(image(1<<20), mcpvisor.ServerSpec{}))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
}

// The share of a call goes to calls of other servers and clients afterwards, so it is of no budget.
func TestCallTool_leaves_its_budget(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "large"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 1<<20)}}}, nil, nil
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: ServeInMemory(server)}))
	for range 10 {
		_, err = c.CallTool(t.Context(), "s/large", nil)
		require.NoError(t, err)
		require.Equal(t, budget.Share{}, *sharePool.Get().(*budget.Share))
	}
}

// A decoded result takes little more than was estimated, whatever its text is made of.
func TestDecode_estimate(t *testing.T) {
	for _, entry := range []string{
		`{"type":"text","text":"x","_meta":{"a":1},"annotations":{"audience":["user"]}}`,
		`{"type":"text","text":"x","\u005fmeta" : {"a":1}}`,
		`{"type":"resource_link","uri":"x:y","name":"n","icons":[{"src":"a"}]}`,
		`{"type":"resource","_meta":{"a":{"b":{}}},"resource":{"uri":"x:y","_meta":{"a":1},"text":"x"}}`,
	} {
		raw := []byte(`{"content":[` + strings.Repeat(entry+",", 10_000) + entry + `]}`)
		size, err := jsonbound.Check(t.Context(), raw, jsonbound.Limits{})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := decodeWholeToolResult(t.Context(), raw)
		require.NoError(t, err)
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, int(after.HeapAlloc-before.HeapAlloc), size.Bytes*3/2, entry)
		runtime.KeepAlive(r)
	}
}
